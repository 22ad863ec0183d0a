#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>

namespace gradrecomp::program {

/// Handwritten digits, one a row.
struct Digits {
  torch::Tensor pixels;  ///< [N, 8, 8] float32, 0 to 16
  torch::Tensor labels;  ///< [N] int64, 0 to 9
};

/// Reads a CSV file, gzipped or not: 64 pixels, then the digit.
/// Throws:  BadInput if the file cannot be read, or naming the line that is malformed.
Digits read_digits(const std::filesystem::path& path);

/// Enlarges digits bilinearly, from -1 to 1 and with three equal channels.
///
/// Shapes:  pixels [N, 8, 8] -> [N, 3, image_size, image_size]
torch::Tensor digit_images(const torch::Tensor& pixels, std::int64_t image_size);

}  // namespace gradrecomp::program
