#pragma once

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// What the elements of a tensor are stored as. Arithmetic is float32 throughout.
enum class Dtype : std::uint8_t { float32, float16, bfloat16 };

/// Order of an image tensor in memory: NCHW or NHWC.
enum class Layout : std::uint8_t { channels_first, channels_last };

constexpr std::int64_t bytes_of(Dtype dtype) { return dtype == Dtype::float32 ? 4 : 2; }

}  // namespace gradrecomp::kernels
