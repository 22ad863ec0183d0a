#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/models/stage.h"

namespace gradrecomp::models {

struct BertOptions {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;  ///< must divide `hidden_size`
  std::int64_t intermediate_size = 3072;
  std::int64_t max_positions = 512;  ///< longest sequence
  std::int64_t type_vocab_size = 2;
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  double layer_norm_eps = 1e-12;
  double initializer_std = 0.02;
  bool add_pooling_layer = true;  ///< end with the pooled first token instead of all hidden states
  bool operator==(const BertOptions&) const = default;
};

/// BERT's encoder, with the architecture, initialization and names of Hugging Face's BertModel.
///
/// Defaults are BERT-Base, uncased. Token 0 is padding: its embedding starts at 0 and stays there.
/// Throws:     c10::ValueError if an option is out of range or `num_heads` does not divide.
/// Source:     Devlin et al., BERT: pre-training of deep bidirectional transformers, 2019.
class GRADRECOMP_API BertModelImpl : public torch::nn::Module {
 public:
  explicit BertModelImpl(const BertOptions& options = {});

  /// Arguments as for `stages`.
  torch::Tensor forward(torch::Tensor input_ids, const torch::Tensor& attention_mask = {},
                        const torch::Tensor& token_type_ids = {});

  /// The forward pass on `input_ids` as "embeddings", "encoder.layer.0", ..., "pooler".
  ///
  /// `attention_mask` is nonzero at the tokens to attend to, by default all; each row needs one.
  /// `token_type_ids` are 0 by default.
  /// Shapes:     input_ids [N, S] int64 -> pooled output [N, hidden_size], or without the pooling
  ///             layer last hidden states [N, S, hidden_size]; both arguments [N, S]
  /// Throws:     c10::ValueError, from the first stage, if a shape or type is wrong.
  std::vector<Stage> stages(const torch::Tensor& attention_mask = {},
                            const torch::Tensor& token_type_ids = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())},
                           {2, torch::nn::AnyValue(torch::Tensor())})

 private:
  class Embeddings;
  class Layer;

  void initialize(double std);

  std::shared_ptr<Embeddings> embeddings_;
  std::vector<std::shared_ptr<Layer>> layers_;
  torch::nn::Linear pooler_{nullptr};
};
TORCH_MODULE(BertModel);

GRADRECOMP_API BertModel bert_base(bool add_pooling_layer = true);
GRADRECOMP_API BertModel bert_large(bool add_pooling_layer = true);

}  // namespace gradrecomp::models
