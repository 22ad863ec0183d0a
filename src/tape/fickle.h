#pragma once

#include <span>
#include <string_view>

#include "gradrecomp/tape/op.h"
#include "gradrecomp/tape/op_traits.h"

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

/// Whether `op`, of that kind, may give other bits when it runs again on `device`.
bool may_differ(Fickle kind, const Op& op, c10::Device device);

}  // namespace gradrecomp::tape
