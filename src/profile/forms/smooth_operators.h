#pragma once

#include <cstdint>

#include "tape/op.h"

namespace gradrecomp::profile {

/// How an operator and its backward pass go on from numbers that are nearly equal.
enum class Smoothness : std::uint8_t {
  /// To others that are not, or it is not known here: what has a step or a kink, as ReLU's
  /// derivative has, changes as a whole where a number crosses it; what has a pole grows without
  /// bound near it; and what compares numbers for equality, as a maximum's backward pass does, may
  /// find none.
  none,
  smooth,      ///< to nearly equal ones
  saturating,  ///< likewise, but its own result, which its backward pass reads, must not be rounded
};

Smoothness smoothness_of(const tape::Op& op);

}  // namespace gradrecomp::profile
