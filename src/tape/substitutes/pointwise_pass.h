#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>
#include <vector>

#include "gradrecomp/kernels/table.h"
#include "tape/substitutes/pointwise_step.h"

namespace gradrecomp::tape {

/// Steps that are done one after the other to every element, in as few passes over memory as
/// kernels allow.
class PointwisePass {
 public:
  PointwisePass(c10::ScalarType type, std::optional<c10::Stream> stream)
      : dtype_(kernels::dtype_of(type).value()), stream_(stream) {}

  /// Adds a step; `operand` is what it reads, if it does, in the order of what it is done to.
  void add(const PointwiseStep& step, const at::Tensor& operand, int formula);

  /// What becomes of all elements of `x`.
  [[nodiscard]] c10::Storage run(const c10::Storage& x) const;
  void run_in_place(const c10::Storage& x) const;

 private:
  void run(const c10::Storage& x, const c10::Storage& y) const;

  kernels::Dtype dtype_;
  std::optional<c10::Stream> stream_;
  std::vector<kernels::Step> steps_;
  std::vector<at::Tensor> operands_;
};

}  // namespace gradrecomp::tape
