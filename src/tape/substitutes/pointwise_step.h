#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "gradrecomp/kernels/pointwise.h"
#include "tape/tape.h"

namespace gradrecomp::tape {

/// What a pointwise op does to one of the tensors it reads, as a step of a kernel that does
/// several, one after the other.
struct PointwiseStep {
  kernels::StepKind kind = kernels::StepKind::relu;
  std::int32_t input = 0;     ///< position in Op::reads of what it is done to
  std::int32_t operand = -1;  ///< position in Op::reads of a tensor or a single number; -1: none
  double scalar = 0;          ///< of a scalar step that reads none
};

/// `op` as a step on what its `input`-th read reads. Nothing if it is not a step, or if kernels do
/// not take these tensors: all are to be dense and in one order, and the result is to be the only
/// one.
std::optional<PointwiseStep> step_on(const Tape& tape, const Op& op, std::int32_t input);

/// `op` as a step on what its first such read reads.
std::optional<PointwiseStep> step_of(const Tape& tape, const Op& op);

/// `op` as a step on the only result of `before`, the op right before it, on the same stream.
std::optional<PointwiseStep> step_after(const Tape& tape, const Op& op, const Op& before);
std::optional<PointwiseStep> step_after(const Tape& tape, OpId id);

/// What of `verified`, found of an op in the same place of another step, holds for `op`, which is
/// about to be put on the tape. What is not a tensor, such as a scale, may differ between steps.
ReplayMethod still_valid(const ReplayMethod& verified, const Tape& tape, const Op& op);

/// In how many ways LibTorch's kernels may do the step: how they round its scalar, and whether they
/// divide by it or multiply by its inverse.
int num_formulas(const PointwiseStep& step, kernels::Dtype dtype);

/// The step in the form that kernels take, on elements of `dtype`. `operand` is what it reads, if
/// it does, and must outlive the result.
kernels::Step kernel_step(const PointwiseStep& step, const at::Tensor& operand,
                          kernels::Dtype dtype, int formula);

}  // namespace gradrecomp::tape
