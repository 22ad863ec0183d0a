#include "gradrecomp/models/gpt2.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <cmath>
#include <string>
#include <utility>

#include "attention.h"
#include "check.h"

namespace gradrecomp::models {
namespace {

namespace nn = torch::nn;

void check(const Gpt2Options& options) {
  check_sizes("Gpt2Model", {{"vocab_size", options.vocab_size},
                            {"max_positions", options.max_positions},
                            {"hidden_size", options.hidden_size},
                            {"num_layers", options.num_layers},
                            {"num_heads", options.num_heads}});
  check_probabilities("Gpt2Model", {{"dropout", options.dropout},
                                    {"attention_dropout", options.attention_dropout}});
  check_multiple("Gpt2Model", {"hidden_size", options.hidden_size},
                 {"num_heads", options.num_heads});
}

nn::LayerNorm make_norm(const Gpt2Options& options) {
  return nn::LayerNorm(nn::LayerNormOptions({options.hidden_size}).eps(options.layer_norm_eps));
}

/// A linear layer whose weight is published the other way round: [in, out].
class Projection : public nn::Module {
 public:
  Projection(std::int64_t in, std::int64_t out, double std) {
    weight_ = register_parameter("weight", torch::empty({in, out}));
    bias_ = register_parameter("bias", torch::zeros({out}));
    nn::init::normal_(weight_, 0, std);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto rows = x.reshape({-1, weight_.size(0)});
    auto sizes = x.sizes().vec();
    sizes.back() = weight_.size(1);
    return torch::addmm(bias_, rows, weight_).view(sizes);
  }

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
};

/// The last layer of a branch starts narrower the more branches are added up.
double branch_std(const Gpt2Options& options) {
  return options.initializer_std / std::sqrt(2.0 * static_cast<double>(options.num_layers));
}

/// Self-attention of each token to those up to it.
class CausalAttention : public nn::Module {
 public:
  explicit CausalAttention(const Gpt2Options& options)
      : num_heads_(options.num_heads), attention_dropout_(options.attention_dropout) {
    const auto size = options.hidden_size;
    c_attn_ = register_module(
        "c_attn", std::make_shared<Projection>(size, 3 * size, options.initializer_std));
    c_proj_ =
        register_module("c_proj", std::make_shared<Projection>(size, size, branch_std(options)));
    dropout_ = register_module("resid_dropout", nn::Dropout(options.dropout));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto packed = c_attn_->forward(x).chunk(3, -1);
    return dropout_->forward(c_proj_->forward(self_attention(
        {packed[0], packed[1], packed[2]}, {.num_heads = num_heads_,
                                            .dropout = is_training() ? attention_dropout_ : 0,
                                            .is_causal = true})));
  }

 private:
  std::int64_t num_heads_;
  double attention_dropout_;
  std::shared_ptr<Projection> c_attn_;
  std::shared_ptr<Projection> c_proj_;
  nn::Dropout dropout_{nullptr};
};

class Mlp : public nn::Module {
 public:
  explicit Mlp(const Gpt2Options& options) {
    const auto size = options.hidden_size;
    c_fc_ = register_module("c_fc",
                            std::make_shared<Projection>(size, 4 * size, options.initializer_std));
    c_proj_ = register_module("c_proj",
                              std::make_shared<Projection>(4 * size, size, branch_std(options)));
    dropout_ = register_module("dropout", nn::Dropout(options.dropout));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return dropout_->forward(c_proj_->forward(torch::gelu(c_fc_->forward(x), "tanh")));
  }

 private:
  std::shared_ptr<Projection> c_fc_;
  std::shared_ptr<Projection> c_proj_;
  nn::Dropout dropout_{nullptr};
};

}  // namespace

class Gpt2ModelImpl::Layer : public nn::Module {
 public:
  explicit Layer(const Gpt2Options& options) {
    ln_1_ = register_module("ln_1", make_norm(options));
    attn_ = register_module("attn", std::make_shared<CausalAttention>(options));
    ln_2_ = register_module("ln_2", make_norm(options));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(options));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attn_->forward(ln_1_->forward(x));
    return x + mlp_->forward(ln_2_->forward(x));
  }

 private:
  nn::LayerNorm ln_1_{nullptr};
  std::shared_ptr<CausalAttention> attn_;
  nn::LayerNorm ln_2_{nullptr};
  std::shared_ptr<Mlp> mlp_;
};

Gpt2ModelImpl::Gpt2ModelImpl(const Gpt2Options& options)
    : nn::Module("Gpt2Model"), options_(options) {
  check(options);
  wte_ = register_module("wte", nn::Embedding(options.vocab_size, options.hidden_size));
  wpe_ = register_module("wpe", nn::Embedding(options.max_positions, options.hidden_size));
  dropout_ = register_module("drop", nn::Dropout(options.dropout));
  nn::ModuleList layers;
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    layers_.push_back(std::make_shared<Layer>(options));
    layers->push_back(layers_.back());
  }
  register_module("h", layers);
  ln_f_ = register_module("ln_f", make_norm(options));
  nn::init::normal_(wte_->weight, 0, options.initializer_std);
  nn::init::normal_(wpe_->weight, 0, options.initializer_std);
}

Stage Gpt2ModelImpl::embeddings() const {
  return {"embeddings", [words = wte_.ptr(), positions = wpe_.ptr(), dropout = dropout_.ptr(),
                         max_positions = options_.max_positions](const torch::Tensor& ids) {
            check_token_ids("Gpt2Model", ids, max_positions);
            const auto numbers = torch::arange(ids.size(1), ids.options());
            return dropout->forward(words->forward(ids) + positions->forward(numbers));
          }};
}

std::vector<Stage> Gpt2ModelImpl::stages() {
  std::vector<Stage> stages = {embeddings()};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    stages.push_back({"h." + std::to_string(i), [layer = layers_[i]](torch::Tensor x) {
                        return layer->forward(std::move(x));
                      }});
  }
  stages.push_back({"ln_f", [ln = ln_f_.ptr()](const torch::Tensor& x) { return ln->forward(x); }});
  return stages;
}

torch::Tensor Gpt2ModelImpl::forward(torch::Tensor input_ids) {
  return run(stages(), std::move(input_ids));
}

Gpt2Model gpt2() { return Gpt2Model(Gpt2Options{}); }

Gpt2Model gpt2_medium() {
  return Gpt2Model(Gpt2Options{.hidden_size = 1024, .num_layers = 24, .num_heads = 16});
}

}  // namespace gradrecomp::models
