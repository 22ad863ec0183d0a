#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/models/stage.h"

namespace gradrecomp::models {

struct LstmOptions {
  std::int64_t vocab_size = 10000;
  std::int64_t hidden_size = 1500;  ///< of embeddings, too
  std::int64_t num_layers = 2;
  double dropout = 0.65;        ///< probability, of each layer's input and of the last one's output
  double initial_range = 0.04;  ///< weights start evenly spread from its negative up to it
  bool operator==(const LstmOptions&) const = default;
};

/// A language model of LSTM layers without its output layer, with the names of PyTorch's
/// word_language_model example.
///
/// Defaults are the large one of the two that were published with dropout. Layers run token by
/// token: some 12 small ops a token and layer, where nn::LSTM may run a layer as one op.
/// Throws:     c10::ValueError if an option is out of range.
/// Source:     Zaremba et al., Recurrent neural network regularization, 2014.
class GRADRECOMP_API LstmModelImpl : public torch::nn::Module {
 public:
  explicit LstmModelImpl(const LstmOptions& options = {});

  /// Shapes:     input_ids [N, S] int64 -> last layer's hidden states [N, S, hidden_size]
  /// Throws:     c10::ValueError if the shape or type is wrong.
  torch::Tensor forward(torch::Tensor input_ids);

  /// The forward pass as "encoder", "rnn.l0", "rnn.l1", ...
  std::vector<Stage> stages();

 private:
  LstmOptions options_;
  torch::nn::Embedding encoder_{nullptr};
  torch::nn::LSTM rnn_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};
TORCH_MODULE(LstmModel);

GRADRECOMP_API LstmModel lstm_medium();
GRADRECOMP_API LstmModel lstm_large();

}  // namespace gradrecomp::models
