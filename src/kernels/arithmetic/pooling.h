#pragma once

#include "gradrecomp/kernels/compact.h"
#include "gradrecomp/version.h"
#include "kernels/arithmetic/normalise.h"

namespace gradrecomp::kernels {

/// Where the window of one output begins in its plane; negative inside the padding.
struct Window {
  std::int64_t row;
  std::int64_t column;
};

GRADRECOMP_INLINE Window window_of(const Pooling& p, std::int64_t output_row,
                                   std::int64_t output_column) {
  return {output_row * p.stride_height - p.padding_height,
          output_column * p.stride_width - p.padding_width};
}

/// Window of the output at `position` of a dense tensor in the pooling's layout.
GRADRECOMP_INLINE Window window_at(const Pooling& p, std::int64_t position) {
  const std::int64_t pixel =
      p.layout == Layout::channels_first ? position : position / p.num_channels;
  return window_of(p, pixel / p.output_width % p.output_height, pixel % p.output_width);
}

GRADRECOMP_INLINE std::uint8_t offset_of(const Pooling& p, Window window, std::int64_t index) {
  const std::int64_t row = (index / p.input_width - window.row) / p.dilation_height;
  const std::int64_t column = (index % p.input_width - window.column) / p.dilation_width;
  return static_cast<std::uint8_t>(row * p.kernel_width + column);
}

GRADRECOMP_INLINE std::int64_t index_of(const Pooling& p, Window window, std::uint8_t offset) {
  const std::int64_t row = window.row + offset / p.kernel_width * p.dilation_height;
  const std::int64_t column = window.column + offset % p.kernel_width * p.dilation_width;
  return row * p.input_width + column;
}

}  // namespace gradrecomp::kernels
