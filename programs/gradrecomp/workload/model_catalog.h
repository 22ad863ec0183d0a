#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/models/stage.h"

namespace gradrecomp::program {

enum class ModelFamily : std::uint8_t { resnet, vit, bert };

/// A model that the program can build by name.
struct ModelEntry {
  std::string_view name;
  ModelFamily family = ModelFamily::resnet;
  std::int64_t num_layers = 0;  ///< encoder layers; 0 where --layers does not apply
  bool embeds_outside = false;  ///< a BERT encoder that is fed embeddings, which get no gradient
};

/// Throws:  BadInput listing the models, if none has that name.
const ModelEntry& find_model(std::string_view name);

/// All names with ", " between.
std::string model_names();

struct ModelSize {
  std::int64_t image_size = 0;  ///< ViT
  std::int64_t num_layers = 0;  ///< ViT and BERT
};

/// A model as the stages of its forward pass.
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::vector<models::Stage> stages;
};

/// Builds `entry` with random weights: 1000 classes, or hidden states of BERT without a pooler.
Model make_model(const ModelEntry& entry, const ModelSize& size);

}  // namespace gradrecomp::program
