#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/models/stage.h"

namespace gradrecomp::models {

struct Gpt2Options {
  std::int64_t vocab_size = 50257;
  std::int64_t max_positions = 1024;  ///< longest sequence
  std::int64_t hidden_size = 768;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;     ///< must divide `hidden_size`
  double dropout = 0.1;            ///< probability, of embeddings and of each layer's two branches
  double attention_dropout = 0.1;  ///< probability, of attention weights
  double layer_norm_eps = 1e-5;
  double initializer_std = 0.02;
  bool operator==(const Gpt2Options&) const = default;
};

/// GPT-2 without its language-model head, with the architecture, initialization and names of
/// Hugging Face's GPT2Model.
///
/// Defaults are the smallest of the four published sizes.
/// Throws:     c10::ValueError if an option is out of range or `num_heads` does not divide.
/// Source:     Radford et al., Language models are unsupervised multitask learners, 2019.
class GRADRECOMP_API Gpt2ModelImpl : public torch::nn::Module {
 public:
  explicit Gpt2ModelImpl(const Gpt2Options& options = {});

  /// Shapes:     input_ids [N, S] int64 -> last hidden states [N, S, hidden_size]
  /// Throws:     c10::ValueError if the shape or type is wrong.
  torch::Tensor forward(torch::Tensor input_ids);

  /// The forward pass as "embeddings", "h.0", ..., "ln_f".
  std::vector<Stage> stages();

 private:
  class Layer;

  [[nodiscard]] Stage embeddings() const;

  Gpt2Options options_;
  torch::nn::Embedding wte_{nullptr};
  torch::nn::Embedding wpe_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
  std::vector<std::shared_ptr<Layer>> layers_;
  torch::nn::LayerNorm ln_f_{nullptr};
};
TORCH_MODULE(Gpt2Model);

GRADRECOMP_API Gpt2Model gpt2();
GRADRECOMP_API Gpt2Model gpt2_medium();

}  // namespace gradrecomp::models
