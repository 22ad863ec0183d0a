#pragma once

#include <span>
#include <string_view>

#include "gradrecomp/version.h"
#include "tape/dispatch/op_traits.h"

namespace gradrecomp::tape {

// Note [ Operators that differ on devices ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// No operator of LibTorch's carries the tag nondeterministic_bitwise, but on CUDA some add up with
// atomics, and cuDNN chooses algorithms by what it measures, for each thread anew. Verification
// runs an op once more and may meet the same order by luck. So such ops are told by name, and what
// they make is kept. LibTorch lists them at torch.use_deterministic_algorithms.
// A few do so on the CPU too, where the threads that share an op write to one place.

/// Names of those that work in no fixed order on devices alone.
std::span<const std::string_view> operators_without_order();
/// Of those that do so on the CPU too.
std::span<const std::string_view> operators_without_order_of_threads();

Fickle fickle_kind(std::string_view name);

}  // namespace gradrecomp::tape
