#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/models/stage.h"

namespace gradrecomp::models {

struct ViTOptions {
  std::int64_t image_size = 224;  ///< pixels per side; fixes the number of position embeddings
  std::int64_t patch_size = 16;   ///< pixels per side; must divide `image_size`
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;  ///< must divide `hidden_size`
  std::int64_t hidden_size = 768;
  std::int64_t mlp_size = 3072;
  std::int64_t num_classes = 1000;
  double dropout = 0;            ///< probability, after the embedding, attention and MLP layers
  double attention_dropout = 0;  ///< probability, on attention weights

  /// Start with a head of zeros, as published. The first step then has zero gradients everywhere
  /// below the head, so switch it off to compare gradients of a fresh model.
  bool zero_head = true;
  bool operator==(const ViTOptions&) const = default;
};

/// A vision transformer for classification, with torchvision's architecture, initialization and
/// names.
///
/// Defaults are ViT-B/16.
/// Throws:     c10::ValueError if an option is out of range or does not divide as noted.
/// Source:     Dosovitskiy et al., An image is worth 16x16 words, 2021. Attention runs as
///             scaled_dot_product_attention on views of the packed projection.
class GRADRECOMP_API ViTImpl : public torch::nn::Module {
 public:
  explicit ViTImpl(const ViTOptions& options = {});

  /// Shapes:     images [N, 3, image_size, image_size] -> logits [N, num_classes]
  /// Throws:     c10::ValueError if the images have another shape.
  torch::Tensor forward(torch::Tensor images);

  /// The forward pass as "patch_embedding", "encoder.layers.encoder_layer_0", ..., "head".
  std::vector<Stage> stages();

 private:
  class EncoderBlock;

  void initialize();
  [[nodiscard]] Stage patch_embedding() const;

  ViTOptions options_;
  torch::Tensor class_token_;
  torch::nn::Conv2d conv_proj_{nullptr};
  torch::Tensor pos_embedding_;
  torch::nn::Dropout dropout_{nullptr};
  std::vector<std::shared_ptr<EncoderBlock>> layers_;
  torch::nn::LayerNorm ln_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(ViT);

GRADRECOMP_API ViT vit_b_16(std::int64_t num_classes = 1000, bool zero_head = true);
GRADRECOMP_API ViT vit_l_16(std::int64_t num_classes = 1000, bool zero_head = true);

}  // namespace gradrecomp::models
