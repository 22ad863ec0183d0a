#pragma once

#include <vector>

#include "tape/replay/sweep_inputs.h"
#include "tape/substitutes/pointwise_pass.h"

namespace gradrecomp::tape {

/// Kernels that make the bits of ops' calls for less: substitutes, and pointwise steps, which join
/// what the op before them makes.
class SweepKernels {
 public:
  SweepKernels(Tape& tape, SweepInputs& inputs) : tape_(tape), inputs_(inputs) {}

  /// Makes the result of `id` by its kernel, and those of so many ops after it that join, in its
  /// place. Returns the last.
  c10::Storage run(OpId id, int num_joined);
  /// Turns `made`, the result of the op before `first`, into that of the last of `count` ops.
  void join(OpId first, int count, const c10::Storage& made);
  at::Tensor substitute(OpId id, int formula, const Followers& followers);

 private:
  /// The steps of the `num_joined` ops after `id`, done in one pass with its substitute.
  [[nodiscard]] Followers followers_of(OpId id, int num_joined);
  /// The pass of `count` ops from `first` on, `step` being that of the first.
  [[nodiscard]] PointwisePass pass_of(OpId first, int count, const PointwiseStep& step);
  [[nodiscard]] at::Tensor operand_of(const Op& op, const PointwiseStep& step);

  Tape& tape_;
  SweepInputs& inputs_;
};

/// What the substitute of `op` makes of `tensors`, one for each of its reads.
at::Tensor run_substitute(const Op& op, const std::vector<at::Tensor>& tensors, int formula,
                          const Followers& followers);

}  // namespace gradrecomp::tape
