#pragma once

#include "tape/tape.h"

namespace gradrecomp::profile {

/// Arithmetic of one operator in a plain training step.
struct Flops {
  double forward = 0;   ///< 1 multiply-add = 2
  double backward = 0;  ///< for the matrix operands that require a gradient
  bool operator==(const Flops&) const = default;
};

/// FLOPs of a recorded op, from its shapes: convolution, GEMM, attention and RNN layers; the rest
/// 0.
///
/// Source: the counting rules of torch.utils.flop_counter.
Flops flops_of(const tape::Op& op, const tape::Tape& tape);

/// Bytes of the tensors a recorded op reads and writes.
double bytes_moved_by(const tape::Op& op, const tape::Tape& tape);

}  // namespace gradrecomp::profile
