#include "gradrecomp/models/lstm.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

constexpr LstmOptions kTiny{.vocab_size = 40, .hidden_size = 16};

TEST(LstmModel, StateIsThatOfTheExample) {
  const auto model = lstm_large();
  expect_published_state(*model, "lstm_large");
  // 66 million are published; 15,010,000 of them are the output layer's, 12,000 a second bias.
  EXPECT_EQ(num_parameters(*model), 51'024'000);
  EXPECT_EQ(num_parameters(*lstm_medium()), 13'270'400);
}

TEST(LstmModel, OutputIsThatOfPyTorchsLstm) {
  LstmModel model(kTiny);
  load_state_dict(*model, data_file("examples/tiny_lstm.state.pt"));
  model->eval();
  const auto example = read_state_dict(data_file("examples/tiny_lstm.example.pt"));
  expect_close(model->forward(example["input_ids"]), example["output"]);
}

TEST(LstmModel, StagesAreTheEncoderAndTheLayers) {
  EXPECT_EQ(stage_names(LstmModel(kTiny)->stages()),
            (std::vector<std::string>{"encoder", "rnn.l0", "rnn.l1"}));
}

TEST(LstmModel, TrainingReachesEveryParameter) {
  torch::manual_seed(0);
  LstmModel model(kTiny);
  expect_gradients_everywhere(*model, model->forward(torch::arange(40).view({4, 10})));
}

TEST(LstmModel, WeightsStartWithinTheirRange) {
  torch::manual_seed(0);
  const LstmModel model(LstmOptions{.vocab_size = 100, .hidden_size = 50, .initial_range = 0.1});
  for (const auto& parameter : model->parameters()) {
    EXPECT_LE(parameter.abs().max().item<double>(), 0.1);
    EXPECT_GT(parameter.abs().max().item<double>(), 0.09);
  }
}

TEST(LstmModel, RejectsOptionsOutOfRange) {
  expect_value_error([] { LstmModel(LstmOptions{.num_layers = 0}); },
                     "LstmModel: num_layers is 0, but must be at least 1.");
  expect_value_error([] { LstmModel(LstmOptions{.dropout = 1}); },
                     "LstmModel: dropout is 1, but must be a probability in [0, 1).");
}

TEST(LstmModel, RejectsInputThatIsNotTokens) {
  expect_value_error(
      [] {
        LstmModel(kTiny)->forward(torch::zeros({2, 3}));
      },
      "LstmModel: input_ids is a Float tensor of shape [2, 3], but must be int64");
}

}  // namespace
}  // namespace gradrecomp::models
