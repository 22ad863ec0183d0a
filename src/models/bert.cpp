#include "gradrecomp/models/bert.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>
#include <torch/utils.h>

#include <optional>
#include <string>
#include <utility>

#include "attention.h"
#include "check.h"

namespace gradrecomp::models {
namespace {

namespace nn = torch::nn;

nn::LayerNorm make_norm(const BertOptions& options) {
  return nn::LayerNorm(nn::LayerNormOptions({options.hidden_size}).eps(options.layer_norm_eps));
}

void check(const BertOptions& options) {
  check_sizes("BertModel", {{"vocab_size", options.vocab_size},
                            {"hidden_size", options.hidden_size},
                            {"num_layers", options.num_layers},
                            {"num_heads", options.num_heads},
                            {"intermediate_size", options.intermediate_size},
                            {"max_positions", options.max_positions},
                            {"type_vocab_size", options.type_vocab_size}});
  check_probabilities("BertModel", {{"hidden_dropout", options.hidden_dropout},
                                    {"attention_dropout", options.attention_dropout}});
  check_multiple("BertModel", {"hidden_size", options.hidden_size},
                 {"num_heads", options.num_heads});
}

void check_companion(const char* name, const torch::Tensor& companion, const torch::Tensor& ids) {
  TORCH_CHECK_VALUE(!companion.defined() || companion.sizes() == ids.sizes(), "BertModel: ", name,
                    " is a tensor of shape ", companion.sizes(),
                    ", but must have that of input_ids, ", ids.sizes(),
                    ". Pass one number per token, or none for the default.");
}

/// A linear layer with dropout, a shortcut around both, and a norm.
class ResidualLinear : public nn::Module {
 public:
  ResidualLinear(std::int64_t in, const BertOptions& options) {
    dense_ = register_module("dense", nn::Linear(in, options.hidden_size));
    norm_ = register_module("LayerNorm", make_norm(options));
    dropout_ = register_module("dropout", nn::Dropout(options.hidden_dropout));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& shortcut) {
    return norm_->forward(dropout_->forward(dense_->forward(x)) + shortcut);
  }

 private:
  nn::Linear dense_{nullptr};
  nn::LayerNorm norm_{nullptr};
  nn::Dropout dropout_{nullptr};
};

}  // namespace

class BertModelImpl::Embeddings : public nn::Module {
 public:
  explicit Embeddings(const BertOptions& options) : max_positions_(options.max_positions) {
    const auto size = options.hidden_size;
    words_ = register_module(
        "word_embeddings",
        nn::Embedding(nn::EmbeddingOptions(options.vocab_size, size).padding_idx(0)));
    positions_ = register_module("position_embeddings", nn::Embedding(max_positions_, size));
    types_ = register_module("token_type_embeddings", nn::Embedding(options.type_vocab_size, size));
    norm_ = register_module("LayerNorm", make_norm(options));
    dropout_ = register_module("dropout", nn::Dropout(options.hidden_dropout));
  }

  torch::Tensor forward(const torch::Tensor& ids, const torch::Tensor& type_ids) {
    check_token_ids("BertModel", ids, max_positions_);
    check_companion("token_type_ids", type_ids, ids);
    const auto types = type_ids.defined() ? type_ids : torch::zeros_like(ids);
    auto x = words_->forward(ids) + types_->forward(types);
    x = x + positions_->forward(torch::arange(ids.size(1), ids.options()));
    return dropout_->forward(norm_->forward(x));
  }

 private:
  std::int64_t max_positions_;
  nn::Embedding words_{nullptr};
  nn::Embedding positions_{nullptr};
  nn::Embedding types_{nullptr};
  nn::LayerNorm norm_{nullptr};
  nn::Dropout dropout_{nullptr};
};

class BertModelImpl::Layer : public nn::Module {
 public:
  explicit Layer(const BertOptions& options)
      : num_heads_(options.num_heads), dropout_(options.attention_dropout) {
    const auto size = options.hidden_size;
    auto attention = register_module("attention", std::make_shared<nn::Module>("Attention"));
    auto self = attention->register_module("self", std::make_shared<nn::Module>("Self"));
    query_ = self->register_module("query", nn::Linear(size, size));
    key_ = self->register_module("key", nn::Linear(size, size));
    value_ = self->register_module("value", nn::Linear(size, size));
    attention_output_ =
        attention->register_module("output", std::make_shared<ResidualLinear>(size, options));
    auto wide = register_module("intermediate", std::make_shared<nn::Module>("Intermediate"));
    intermediate_ = wide->register_module("dense", nn::Linear(size, options.intermediate_size));
    output_ = register_module("output",
                              std::make_shared<ResidualLinear>(options.intermediate_size, options));
  }

  torch::Tensor forward(torch::Tensor x, const std::optional<torch::Tensor>& mask) {
    x = attention_output_->forward(attend(x, mask), x);
    return output_->forward(torch::gelu(intermediate_->forward(x)), x);
  }

 private:
  torch::Tensor attend(const torch::Tensor& x, const std::optional<torch::Tensor>& mask) {
    return self_attention(
        {query_->forward(x), key_->forward(x), value_->forward(x)},
        {.num_heads = num_heads_, .dropout = is_training() ? dropout_ : 0, .mask = mask});
  }

  std::int64_t num_heads_;
  double dropout_;
  nn::Linear query_{nullptr};
  nn::Linear key_{nullptr};
  nn::Linear value_{nullptr};
  std::shared_ptr<ResidualLinear> attention_output_;
  nn::Linear intermediate_{nullptr};
  std::shared_ptr<ResidualLinear> output_;
};

BertModelImpl::BertModelImpl(const BertOptions& options) : nn::Module("BertModel") {
  check(options);
  embeddings_ = register_module("embeddings", std::make_shared<Embeddings>(options));
  nn::ModuleList layers;
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    layers_.push_back(std::make_shared<Layer>(options));
    layers->push_back(layers_.back());
  }
  register_module("encoder", std::make_shared<nn::Module>("Encoder"))
      ->register_module("layer", layers);
  if (options.add_pooling_layer) {
    pooler_ = register_module("pooler", std::make_shared<nn::Module>("Pooler"))
                  ->register_module("dense", nn::Linear(options.hidden_size, options.hidden_size));
  }
  initialize(options.initializer_std);
}

void BertModelImpl::initialize(double std) {
  torch::NoGradGuard no_grad;
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* linear = module->as<nn::Linear>()) {
      linear->weight.normal_(0, std);
      linear->bias.zero_();
    } else if (auto* embedding = module->as<nn::Embedding>()) {
      embedding->weight.normal_(0, std);
      if (const auto padding = embedding->options.padding_idx()) {
        embedding->weight[*padding].zero_();
      }
    }
  }
}

std::vector<Stage> BertModelImpl::stages(const torch::Tensor& attention_mask,
                                         const torch::Tensor& token_type_ids) {
  std::vector<Stage> stages;
  stages.push_back({"embeddings", [embeddings = embeddings_, attention_mask,
                                   types = token_type_ids](const torch::Tensor& ids) {
                      check_companion("attention_mask", attention_mask, ids);
                      return embeddings->forward(ids, types);
                    }});
  std::optional<torch::Tensor> mask;
  if (attention_mask.defined()) mask = attention_mask.to(torch::kBool).unsqueeze(1).unsqueeze(1);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    stages.push_back(
        {"encoder.layer." + std::to_string(i), [layer = layers_[i], mask](torch::Tensor x) {
           return layer->forward(std::move(x), mask);
         }});
  }
  if (pooler_.is_empty()) return stages;
  stages.push_back({"pooler", [pooler = pooler_.ptr()](const torch::Tensor& x) {
                      return torch::tanh(pooler->forward(x.select(1, 0)));
                    }});
  return stages;
}

torch::Tensor BertModelImpl::forward(torch::Tensor input_ids, const torch::Tensor& attention_mask,
                                     const torch::Tensor& token_type_ids) {
  return run(stages(attention_mask, token_type_ids), std::move(input_ids));
}

BertModel bert_base(bool add_pooling_layer) {
  return BertModel(BertOptions{.add_pooling_layer = add_pooling_layer});
}

BertModel bert_large(bool add_pooling_layer) {
  return BertModel(BertOptions{.hidden_size = 1024,
                               .num_layers = 24,
                               .num_heads = 16,
                               .intermediate_size = 4096,
                               .add_pooling_layer = add_pooling_layer});
}

}  // namespace gradrecomp::models
