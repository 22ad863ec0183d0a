#pragma once

#include "gradrecomp/kernels/dtype.h"
#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// Bytes that hold `num_elements` packed elements of a mask.
constexpr std::int64_t packed_mask_bytes(std::int64_t num_elements) {
  return (num_elements + 7) / 8;
}

/// A mask, whose elements are 0 or `one`, and its packed form.
///
/// Element i is bit i % 8 of byte i / 8, unused bits are 0. The mask may be of bools, then one is
/// 1, or of numbers.
///
/// Shapes: mask [num_elements], of `element_bytes` each; bits [packed_mask_bytes(num_elements)].
/// Throws: c10::ValueError unless element_bytes is 1, 2, 4 or 8.
struct PackMask {
  std::int64_t num_elements = 0;
  const void* mask = nullptr;
  void* bits = nullptr;
  std::int64_t element_bytes = 1;
};
struct UnpackMask {
  std::int64_t num_elements = 0;
  const void* bits = nullptr;
  void* mask = nullptr;
  std::int64_t element_bytes = 1;
  std::uint64_t one = 1;  ///< in its lowest bytes
};

/// Numbers of float32, and those rounded to bfloat16, to nearest even.
///
/// What is finite stays finite: what would round to infinity becomes bfloat16's largest number. NaN
/// stays NaN, with a sign and payload of its own.
///
/// Shapes: numbers and rounded [num_elements].
struct RoundFloats {
  std::int64_t num_elements = 0;
  const float* numbers = nullptr;
  std::uint16_t* rounded = nullptr;
};
struct WidenFloats {
  std::int64_t num_elements = 0;
  const std::uint16_t* rounded = nullptr;
  float* numbers = nullptr;
};

/// Geometry of a max_pool2d call.
struct Pooling {
  std::int64_t num_images = 0;
  std::int64_t num_channels = 0;
  std::int64_t input_height = 0;
  std::int64_t input_width = 0;
  std::int64_t output_height = 0;
  std::int64_t output_width = 0;
  std::int64_t kernel_height = 1;
  std::int64_t kernel_width = 1;
  std::int64_t stride_height = 1;
  std::int64_t stride_width = 1;
  std::int64_t padding_height = 0;
  std::int64_t padding_width = 0;
  std::int64_t dilation_height = 1;
  std::int64_t dilation_width = 1;
  Layout layout = Layout::channels_first;  ///< of the indices and of the offsets

  [[nodiscard]] constexpr std::int64_t num_outputs() const {
    return num_images * num_channels * output_height * output_width;
  }
};

/// True if a position inside the window fits into a byte, so that packing loses nothing.
constexpr bool offsets_fit(const Pooling& pooling) {
  return pooling.kernel_height * pooling.kernel_width <= 256;
}

/// Indices of max_pool2d_with_indices (row * input_width + column of a plane, int64) and their
/// packed form: the position inside the window, kernel row * kernel_width + kernel column.
///
/// Shapes: indices and offsets [pooling.num_outputs()], in `pooling.layout`.
/// Throws: c10::ValueError unless offsets_fit(pooling).
struct PackIndices {
  Pooling pooling;
  const std::int64_t* indices = nullptr;
  std::uint8_t* offsets = nullptr;
};
struct UnpackIndices {
  Pooling pooling;
  const std::uint8_t* offsets = nullptr;
  std::int64_t* indices = nullptr;
};

}  // namespace gradrecomp::kernels
