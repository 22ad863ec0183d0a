#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <utility>

#include "gradrecomp/version.h"

namespace gradrecomp::models {

/// What the published convolutional networks begin with: `conv`, `norm`, a ReLU and a pooling that
/// halves height and width.
///
/// Throws:     c10::ValueError naming `model` if the images are not [N, 3, H, W].
inline torch::Tensor image_stem(const char* model, torch::nn::Conv2dImpl& conv,
                                torch::nn::BatchNorm2dImpl& norm, torch::Tensor images) {
  TORCH_CHECK_VALUE(images.dim() == 4 && images.size(1) == 3, model,
                    ": images is a tensor of shape ", images.sizes(),
                    ", but must be [N, 3, H, W]. Add the batch or color dimension.");
  auto x = norm.forward(conv.forward(std::move(images))).relu_();
  return torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
}

}  // namespace gradrecomp::models
