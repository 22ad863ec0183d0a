#pragma once

#include <span>
#include <string_view>

#include "tape/dispatch/op_traits.h"

namespace gradrecomp::tape {

// Note [ Operators that differ on devices ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// No operator of LibTorch's carries the tag nondeterministic_bitwise, but on CUDA some add up with
// atomics, and cuDNN chooses algorithms by what it measures, for each thread anew. Verification
// runs an op once more and may meet the same order by luck. So such ops are told by name, and what
// they make is kept. LibTorch lists them at torch.use_deterministic_algorithms.

/// Names of those that work in no fixed order.
std::span<const std::string_view> operators_without_order();

Fickle fickle_kind(std::string_view name);

}  // namespace gradrecomp::tape
