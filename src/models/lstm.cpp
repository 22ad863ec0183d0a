#include "gradrecomp/models/lstm.h"

#include <torch/nn/init.h>

#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "check.h"

namespace gradrecomp::models {
namespace {

namespace nn = torch::nn;

void check(const LstmOptions& options) {
  check_sizes("LstmModel", {{"vocab_size", options.vocab_size},
                            {"hidden_size", options.hidden_size},
                            {"num_layers", options.num_layers}});
  check_probabilities("LstmModel", {{"dropout", options.dropout}});
}

/// Layer `number` of `rnn` over x [N, S, in], from zeros on. Returns its hidden states [N, S,
/// hidden].
torch::Tensor run_layer(const nn::LSTMImpl& rnn, std::int64_t number, const torch::Tensor& x) {
  const auto suffix = "_l" + std::to_string(number);
  const auto parameters = rnn.named_parameters(/*recurse=*/false);
  const auto input_weight = parameters["weight_ih" + suffix];
  const auto hidden_weight = parameters["weight_hh" + suffix];
  const auto input_bias = parameters["bias_ih" + suffix];
  const auto hidden_bias = parameters["bias_hh" + suffix];
  auto hidden = x.new_zeros({x.size(0), rnn.options.hidden_size()});
  auto cell = torch::zeros_like(hidden);
  std::vector<torch::Tensor> states;
  for (const auto& token : x.unbind(1)) {
    std::tie(hidden, cell) = torch::lstm_cell(token, {hidden, cell}, input_weight, hidden_weight,
                                              input_bias, hidden_bias);
    states.push_back(hidden);
  }
  return torch::stack(states, 1);
}

}  // namespace

LstmModelImpl::LstmModelImpl(const LstmOptions& options)
    : nn::Module("LstmModel"), options_(options) {
  check(options);
  const auto size = options.hidden_size;
  encoder_ = register_module("encoder", nn::Embedding(options.vocab_size, size));
  rnn_ =
      register_module("rnn", nn::LSTM(nn::LSTMOptions(size, size).num_layers(options.num_layers)));
  dropout_ = register_module("drop", nn::Dropout(options.dropout));
  for (const auto& parameter : parameters()) {
    nn::init::uniform_(parameter, -options.initial_range, options.initial_range);
  }
}

std::vector<Stage> LstmModelImpl::stages() {
  std::vector<Stage> stages;
  stages.push_back(
      {"encoder", [encoder = encoder_.ptr(), dropout = dropout_.ptr()](const torch::Tensor& ids) {
         check_token_ids("LstmModel", ids, std::numeric_limits<std::int64_t>::max());
         return dropout->forward(encoder->forward(ids));
       }});
  for (std::int64_t l = 0; l < options_.num_layers; ++l) {
    stages.push_back({"rnn.l" + std::to_string(l),
                      [rnn = rnn_.ptr(), dropout = dropout_.ptr(), l](const torch::Tensor& x) {
                        return dropout->forward(run_layer(*rnn, l, x));
                      }});
  }
  return stages;
}

torch::Tensor LstmModelImpl::forward(torch::Tensor input_ids) {
  return run(stages(), std::move(input_ids));
}

LstmModel lstm_medium() {
  return LstmModel(LstmOptions{.hidden_size = 650, .dropout = 0.5, .initial_range = 0.05});
}

LstmModel lstm_large() { return LstmModel(LstmOptions{}); }

}  // namespace gradrecomp::models
