#pragma once

#include "test_device.h"

namespace gradrecomp::kernels {

inline const std::vector<torch::ScalarType> kDtypes{torch::kFloat, torch::kHalf, torch::kBFloat16};

/// Operands of a batch norm over images: x [N, C, H, W] in some layout.
struct BatchNormCase {
  torch::Tensor x, mean, invstd, gamma, beta, residual{};
  Layout layout = Layout::channels_first;
  bool relu = false;

  [[nodiscard]] BatchNorm args(torch::Tensor& y, Rounding rounding) const {
    const auto parameter = gamma.defined() ? gamma : (beta.defined() ? beta : mean);
    return {.num_images = x.size(0),
            .num_channels = x.size(1),
            .inner = x.size(2) * x.size(3),
            .layout = layout,
            .dtype = *dtype_of(x.scalar_type()),
            .parameter_dtype = *dtype_of(parameter.scalar_type()),
            .statistics_dtype = *dtype_of(mean.scalar_type()),
            .x = data_of(x),
            .mean = data_of(mean),
            .invstd = data_of(invstd),
            .gamma = data_of(gamma),
            .beta = data_of(beta),
            .residual = data_of(residual),
            .y = y.data_ptr(),
            .relu = relu,
            .rounding = rounding};
  }
};

/// Random images of which neither mean nor spread is that of a normalised tensor.
inline torch::Tensor images(std::vector<std::int64_t> sizes, torch::ScalarType dtype,
                            Layout layout) {
  const auto x = (torch::randn(sizes) * 2.5 + 0.7).to(dtype);
  return layout == Layout::channels_last ? x.contiguous(torch::MemoryFormat::ChannelsLast) : x;
}

/// Odd sizes, no elements, single pixels, planes of more than a block, channels of more than one.
inline const std::vector<std::vector<std::int64_t>> kImageSizes{
    {3, 19, 9, 11}, {2, 64, 7, 7},  {0, 5, 4, 4},    {4, 1, 1, 1},
    {5, 33, 1, 1},  {1, 3, 70, 61}, {1, 2500, 1, 2}, {2, 16, 8, 8}};

}  // namespace gradrecomp::kernels
