#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>

#include "tape/geometry/geometry.h"

namespace gradrecomp::tape {

// What kernels and calls are compared on where the values of a step might hide how they round.
// Nothing here draws from a generator, or is recorded.

/// Elements of a pattern by which two kernels can be told apart.
constexpr std::int64_t kPatternSize = 4096;

/// Of so many LibTorch's pointwise operators make no work for other threads.
constexpr std::int64_t kOnOneThread = 2048;

/// In 16 bits not exactly, so that it shows where a scalar is rounded to them.
constexpr double kPatternNumber = 0.7548776662466927;

/// A pattern divided by it has other bits than one multiplied by its inverse, in 16 bits too.
constexpr double kPatternDivisor = 1.41296923;

/// Numbers from -1 to 1 of no simple relation, from the one at `first` on; of flags about half are
/// set. At 0 there is -0.
at::Tensor pattern(std::int64_t count, at::TensorOptions options, std::int64_t first);

/// Such numbers in all the memory of a tensor that is laid out like `like`; others for another
/// `phase`.
at::Tensor pattern_like(const at::Tensor& like, int phase);

/// `number` in that type or, if that has no fractions, a number which the type of the tensor
/// `beside` it does not hold, if there is one.
at::Tensor pattern_number(const Geometry& geometry, c10::ScalarType beside, double number);

}  // namespace gradrecomp::tape
