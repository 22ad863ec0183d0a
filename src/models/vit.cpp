#include "gradrecomp/models/vit.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include <cmath>
#include <string>
#include <utility>

#include "attention.h"
#include "check.h"

namespace gradrecomp::models {
namespace {

namespace nn = torch::nn;

nn::LayerNorm make_norm(std::int64_t size) {
  return nn::LayerNorm(nn::LayerNormOptions({size}).eps(1e-6));
}

nn::Linear make_mlp_linear(std::int64_t in, std::int64_t out) {
  nn::Linear linear(in, out);
  nn::init::xavier_uniform_(linear->weight);
  nn::init::normal_(linear->bias, 0, 1e-6);
  return linear;
}

const ViTOptions& checked(const ViTOptions& options) {
  check_sizes("ViT", {{"image_size", options.image_size},
                      {"patch_size", options.patch_size},
                      {"num_layers", options.num_layers},
                      {"num_heads", options.num_heads},
                      {"hidden_size", options.hidden_size},
                      {"mlp_size", options.mlp_size},
                      {"num_classes", options.num_classes}});
  check_probabilities(
      "ViT", {{"dropout", options.dropout}, {"attention_dropout", options.attention_dropout}});
  check_multiple("ViT", {"image_size", options.image_size}, {"patch_size", options.patch_size});
  check_multiple("ViT", {"hidden_size", options.hidden_size}, {"num_heads", options.num_heads});
  return options;
}

void check_images(const torch::Tensor& images, std::int64_t size) {
  TORCH_CHECK_VALUE(
      images.dim() == 4 && images.size(1) == 3 && images.size(2) == size && images.size(3) == size,
      "ViT: images is a tensor of shape ", images.sizes(), ", but must be [N, 3, ", size, ", ",
      size, "]. Resize the images or build the model for another image_size.");
}

/// Self-attention with query, key and value projected by one matrix.
class PackedAttention : public nn::Module {
 public:
  explicit PackedAttention(const ViTOptions& options)
      : num_heads_(options.num_heads), dropout_(options.attention_dropout) {
    const auto size = options.hidden_size;
    in_proj_weight_ = register_parameter("in_proj_weight", torch::empty({3 * size, size}));
    in_proj_bias_ = register_parameter("in_proj_bias", torch::zeros({3 * size}));
    out_proj_ = register_module("out_proj", nn::Linear(size, size));
    nn::init::xavier_uniform_(in_proj_weight_);
    nn::init::zeros_(out_proj_->bias);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto packed = torch::linear(x, in_proj_weight_, in_proj_bias_).chunk(3, -1);
    return out_proj_->forward(
        self_attention({packed[0], packed[1], packed[2]},
                       {.num_heads = num_heads_, .dropout = is_training() ? dropout_ : 0}));
  }

 private:
  std::int64_t num_heads_;
  double dropout_;
  torch::Tensor in_proj_weight_;
  torch::Tensor in_proj_bias_;
  nn::Linear out_proj_{nullptr};
};

}  // namespace

class ViTImpl::EncoderBlock : public nn::Module {
 public:
  explicit EncoderBlock(const ViTOptions& options) {
    const auto size = options.hidden_size;
    ln_1_ = register_module("ln_1", make_norm(size));
    attention_ = register_module("self_attention", std::make_shared<PackedAttention>(options));
    dropout_ = register_module("dropout", nn::Dropout(options.dropout));
    ln_2_ = register_module("ln_2", make_norm(size));
    mlp_ = register_module(
        "mlp", nn::Sequential(make_mlp_linear(size, options.mlp_size), nn::GELU(),
                              nn::Dropout(options.dropout), make_mlp_linear(options.mlp_size, size),
                              nn::Dropout(options.dropout)));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + dropout_->forward(attention_->forward(ln_1_->forward(x)));
    return x + mlp_->forward(ln_2_->forward(x));
  }

 private:
  nn::LayerNorm ln_1_{nullptr};
  std::shared_ptr<PackedAttention> attention_;
  nn::Dropout dropout_{nullptr};
  nn::LayerNorm ln_2_{nullptr};
  nn::Sequential mlp_{nullptr};
};

ViTImpl::ViTImpl(const ViTOptions& options) : nn::Module("ViT"), options_(checked(options)) {
  const auto size = options.hidden_size;
  const auto patches_per_side = options.image_size / options.patch_size;
  class_token_ = register_parameter("class_token", torch::zeros({1, 1, size}));
  conv_proj_ = register_module(
      "conv_proj",
      nn::Conv2d(nn::Conv2dOptions(3, size, options.patch_size).stride(options.patch_size)));

  auto encoder = register_module("encoder", std::make_shared<nn::Module>("Encoder"));
  pos_embedding_ = encoder->register_parameter(
      "pos_embedding", torch::empty({1, patches_per_side * patches_per_side + 1, size}));
  dropout_ = encoder->register_module("dropout", nn::Dropout(options.dropout));
  auto layers = encoder->register_module("layers", std::make_shared<nn::Module>("Layers"));
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    layers_.push_back(layers->register_module("encoder_layer_" + std::to_string(i),
                                              std::make_shared<EncoderBlock>(options)));
  }
  ln_ = encoder->register_module("ln", make_norm(size));

  auto heads = register_module("heads", std::make_shared<nn::Module>("Heads"));
  head_ = heads->register_module("head", nn::Linear(size, options.num_classes));
  initialize();
}

void ViTImpl::initialize() {
  // Published as a normal cut off at 2, which is over 50 standard deviations for patches of 16.
  const auto fan_in = conv_proj_->weight[0].numel();
  nn::init::normal_(conv_proj_->weight, 0, std::sqrt(1.0 / static_cast<double>(fan_in)));
  nn::init::zeros_(conv_proj_->bias);
  nn::init::normal_(pos_embedding_, 0, 0.02);
  if (!options_.zero_head) return;
  nn::init::zeros_(head_->weight);
  nn::init::zeros_(head_->bias);
}

Stage ViTImpl::patch_embedding() const {
  return {"patch_embedding",
          [conv = conv_proj_.ptr(), class_token = class_token_, pos_embedding = pos_embedding_,
           dropout = dropout_.ptr(), image_size = options_.image_size](torch::Tensor x) {
            check_images(x, image_size);
            x = conv->forward(x).flatten(2).transpose(1, 2);
            x = torch::cat({class_token.expand({x.size(0), -1, -1}), x}, 1);
            return dropout->forward(x + pos_embedding);
          }};
}

std::vector<Stage> ViTImpl::stages() {
  std::vector<Stage> stages = {patch_embedding()};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    stages.push_back(
        {"encoder.layers.encoder_layer_" + std::to_string(i),
         [layer = layers_[i]](torch::Tensor x) { return layer->forward(std::move(x)); }});
  }
  stages.push_back({"head", [ln = ln_.ptr(), head = head_.ptr()](const torch::Tensor& x) {
                      return head->forward(ln->forward(x).select(1, 0));
                    }});
  return stages;
}

torch::Tensor ViTImpl::forward(torch::Tensor images) { return run(stages(), std::move(images)); }

ViT vit_b_16(std::int64_t num_classes, bool zero_head) {
  return ViT(ViTOptions{.num_classes = num_classes, .zero_head = zero_head});
}

ViT vit_l_16(std::int64_t num_classes, bool zero_head) {
  return ViT(ViTOptions{.num_layers = 24,
                        .num_heads = 16,
                        .hidden_size = 1024,
                        .mlp_size = 4096,
                        .num_classes = num_classes,
                        .zero_head = zero_head});
}

}  // namespace gradrecomp::models
