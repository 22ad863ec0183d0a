#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tape/dispatch/op_traits.h"
#include "tape/op.h"

namespace gradrecomp::tape {

/// A call while it is being recorded: the op that it becomes, and what is known of it till then.
struct Draft {
  const OpTraits& traits;
  Op op;
  /// What replays read instead of an argument, or of an element of one that is a list.
  struct Copy {
    std::int16_t argument;
    std::int32_t element;  ///< -1: no list
    at::Tensor tensor;
  };
  std::vector<Copy> copies = {};
  bool updates_statistics = false;     ///< a BatchNorm in training
  bool leaves_out_statistics = false;  ///< replays do without the running ones
  bool writes_external = false;
  /// To autograd: nothing it reads requires a gradient. The program may write its results by hand,
  /// and a replay would miss that.
  bool is_constant = true;
  bool reads_passing_memory = false;  ///< lent, so it may be gone before a replay, or gone already
  bool returns_more = false;          ///< than plain tensors
  std::optional<c10::Device> device = {};
  bool is_fickle = false;  ///< on that device
  bool has_failed = false;
  /// One of the op's reads that it writes to.
  struct Written {
    std::size_t read;  ///< position in Op::reads
    c10::weak_intrusive_ptr<c10::StorageImpl> memory;
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  };
  std::vector<Written> written = {};

  [[nodiscard]] const at::Tensor& copy_for(std::int16_t argument, std::int32_t element,
                                           const at::Tensor& original) const {
    const auto copy = std::ranges::find_if(
        copies, [&](const Copy& of) { return of.argument == argument && of.element == element; });
    return copy == copies.end() ? original : copy->tensor;
  }

  void note_gradient_of(const at::Tensor& argument) {
    is_constant = is_constant && !(argument.requires_grad() && c10::GradMode::is_enabled());
  }
};

}  // namespace gradrecomp::tape
