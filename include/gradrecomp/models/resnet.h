#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/models/stage.h"

namespace gradrecomp::models {

enum class ResNetBlock : std::uint8_t {
  basic,       ///< two 3x3 convolutions
  bottleneck,  ///< 1x1, 3x3 and 1x1 convolutions; the last widens fourfold
};

struct ResNetOptions {
  ResNetBlock block = ResNetBlock::bottleneck;
  std::array<std::int64_t, 4> num_blocks = {3, 4, 6, 3};  ///< in layer1 to layer4
  std::int64_t num_classes = 1000;
  std::int64_t width = 64;  ///< channels of the stem and of layer1, doubled by each later layer
  bool operator==(const ResNetOptions&) const = default;
};

/// A residual network for images, with torchvision's architecture, initialization and names.
///
/// Defaults are ResNet-50. The stride sits on the 3x3 convolution of a bottleneck ("V1.5").
/// Throws:     c10::ValueError if an option is not positive.
/// Source:     He et al., Deep residual learning for image recognition, 2016.
class GRADRECOMP_API ResNetImpl : public torch::nn::Module {
 public:
  explicit ResNetImpl(const ResNetOptions& options = {});

  /// Shapes:     images [N, 3, H, W] -> logits [N, num_classes]
  torch::Tensor forward(torch::Tensor images);

  /// The forward pass as "stem", "layer1.0", ..., "head".
  std::vector<Stage> stages();

 private:
  class Block;

  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::array<std::vector<std::shared_ptr<Block>>, 4> layers_;
  torch::nn::Linear fc_{nullptr};
};
TORCH_MODULE(ResNet);

GRADRECOMP_API ResNet resnet18(std::int64_t num_classes = 1000);
GRADRECOMP_API ResNet resnet34(std::int64_t num_classes = 1000);
GRADRECOMP_API ResNet resnet50(std::int64_t num_classes = 1000);
GRADRECOMP_API ResNet resnet101(std::int64_t num_classes = 1000);
GRADRECOMP_API ResNet resnet152(std::int64_t num_classes = 1000);

}  // namespace gradrecomp::models
