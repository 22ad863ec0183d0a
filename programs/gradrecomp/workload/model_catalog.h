#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/models/stage.h"
#include "workload/workload_options.h"

namespace gradrecomp::program {

enum class ModelFamily : std::uint8_t { resnet, densenet, unet, fno, vit, bert, gpt, lstm };

/// Whether its models read tokens; the others see images.
constexpr bool reads_text(ModelFamily family) {
  return family == ModelFamily::bert || family == ModelFamily::gpt || family == ModelFamily::lstm;
}

/// Whether its models say something of each pixel, not of an image.
constexpr bool labels_pixels(ModelFamily family) {
  return family == ModelFamily::unet || family == ModelFamily::fno;
}

/// A model as the stages of its forward pass.
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::vector<models::Stage> stages;
  std::int64_t width = 0;  ///< of the hidden states that a text model ends with
};

/// A model that the program can build by name.
struct ModelEntry {
  std::string_view name;
  ModelFamily family;
  std::int64_t num_layers;  ///< of those that --layers counts; 0 where it does not apply
  /// Builds it with random weights: 1000 classes, two of each pixel, or the last hidden states of a
  /// text model.
  Model (*make)(const WorkloadOptions& options);
  bool embeds_outside = false;  ///< a BERT encoder that is fed embeddings, which get no gradient
};

/// The entry of that name, which must be one of model_names().
const ModelEntry& find_model(std::string_view name);

std::vector<std::string> model_names();

}  // namespace gradrecomp::program
