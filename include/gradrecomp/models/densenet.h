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

struct DenseNetOptions {
  std::int64_t growth_rate = 32;                             ///< channels that each layer adds
  std::array<std::int64_t, 4> num_layers = {6, 12, 24, 16};  ///< in denseblock1 to denseblock4
  std::int64_t stem_width = 64;                              ///< channels of the stem
  std::int64_t bottleneck_ratio = 4;  ///< channels within a layer, by its growth rate
  std::int64_t num_classes = 1000;
  bool operator==(const DenseNetOptions&) const = default;
};

/// A densely connected network for images, with torchvision's architecture, initialization and
/// names.
///
/// Defaults are DenseNet-121. Each layer's result is appended to its input, which is what
/// torchvision concatenates anew in every layer.
/// Throws:     c10::ValueError if an option is not positive.
/// Source:     Huang et al., Densely connected convolutional networks, 2017.
class GRADRECOMP_API DenseNetImpl : public torch::nn::Module {
 public:
  explicit DenseNetImpl(const DenseNetOptions& options = {});

  /// Shapes:     images [N, 3, H, W] -> logits [N, num_classes]
  /// Throws:     c10::ValueError if the images have another number of dimensions or colors.
  torch::Tensor forward(torch::Tensor images);

  /// The forward pass as "stem", "denseblock1.denselayer1", ..., "transition1", ..., "head".
  std::vector<Stage> stages();

 private:
  class Layer;
  class Transition;

  std::int64_t add_block(torch::nn::Module& features, std::size_t number, std::int64_t channels,
                         const DenseNetOptions& options);

  torch::nn::Conv2d conv0_{nullptr};
  torch::nn::BatchNorm2d norm0_{nullptr};
  std::array<std::vector<std::shared_ptr<Layer>>, 4> blocks_;
  std::vector<std::shared_ptr<Transition>> transitions_;  ///< between the blocks
  torch::nn::BatchNorm2d norm5_{nullptr};
  torch::nn::Linear classifier_{nullptr};
};
TORCH_MODULE(DenseNet);

GRADRECOMP_API DenseNet densenet121(std::int64_t num_classes = 1000);
GRADRECOMP_API DenseNet densenet201(std::int64_t num_classes = 1000);

}  // namespace gradrecomp::models
