#include "gradrecomp/models/bert.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

constexpr BertOptions kTiny{.vocab_size = 40,
                            .hidden_size = 16,
                            .num_layers = 2,
                            .num_heads = 2,
                            .intermediate_size = 32,
                            .max_positions = 12};

constexpr BertOptions kTinyBody{.vocab_size = 40,
                                .hidden_size = 16,
                                .num_layers = 2,
                                .num_heads = 2,
                                .intermediate_size = 32,
                                .max_positions = 12,
                                .add_pooling_layer = false};

torch::Tensor random_ids() { return torch::randint(1, 40, {2, 10}, torch::kLong); }

TEST(BertModel, BaseIsThatOfHuggingFace) {
  const auto model = bert_base();
  expect_published_state(*model, "bert_base");
  EXPECT_EQ(num_parameters(*model), 109'482'240);
}

TEST(BertModel, LargeIsThatOfHuggingFace) {
  const auto model = bert_large();
  expect_published_state(*model, "bert_large");
  EXPECT_EQ(num_parameters(*model), 335'141'888);
}

TEST(BertModel, OutputIsThatOfHuggingFace) {
  BertModel model(kTiny);
  load_state_dict(*model, data_file("examples/tiny_bert.state.pt"));
  model->eval();
  const auto example = read_state_dict(data_file("examples/tiny_bert.example.pt"));
  const auto output =
      model->forward(example["input_ids"], example["attention_mask"], example["token_type_ids"]);
  expect_close(output, example["output"]);
}

TEST(BertModel, StartsWithNarrowWeightsAndNoPaddingEmbedding) {
  torch::manual_seed(0);
  const auto parameters = BertModel(BertOptions{.num_layers = 1})->named_parameters();
  const auto words = parameters["embeddings.word_embeddings.weight"];
  EXPECT_NEAR(words.std().item<double>(), 0.02, 1e-4);
  EXPECT_EQ(words[0].abs().max().item<double>(), 0);
  const auto wide = parameters["encoder.layer.0.intermediate.dense.weight"];
  EXPECT_NEAR(wide.std().item<double>(), 0.02, 1e-4);
  EXPECT_EQ(parameters["pooler.dense.bias"].abs().max().item<double>(), 0);
}

TEST(BertModel, StagesAreNamedByTheModulesTheyCover) {
  EXPECT_EQ(
      stage_names(BertModel(kTiny)->stages()),
      (std::vector<std::string>{"embeddings", "encoder.layer.0", "encoder.layer.1", "pooler"}));
}

TEST(BertModel, BodyEndsWithTheLastHiddenStates) {
  BertModel model(kTinyBody);
  EXPECT_EQ(model->stages().back().name, "encoder.layer.1");
  EXPECT_EQ(model->forward(random_ids()).sizes(), (std::vector<std::int64_t>{2, 10, 16}));
}

TEST(BertModel, DefaultsAttendToAllTokensOfTypeZero) {
  torch::manual_seed(0);
  BertModel model(kTiny);
  model->eval();
  const auto ids = random_ids();
  expect_close(model->forward(ids),
               model->forward(ids, torch::ones_like(ids), torch::zeros_like(ids)));
}

TEST(BertModel, MaskedTokensDoNotReachTheOutput) {
  torch::manual_seed(0);
  BertModel model(kTiny);
  model->eval();
  auto ids = random_ids();
  auto mask = torch::ones_like(ids);
  mask.slice(1, 7).zero_();
  const auto output = model->forward(ids, mask);
  ids.slice(1, 7).zero_();
  EXPECT_TRUE(torch::equal(model->forward(ids, mask), output));
}

TEST(BertModel, TrainingReachesEveryParameter) {
  torch::manual_seed(0);
  BertModel model(kTiny);
  expect_gradients_everywhere(*model, model->forward(random_ids()));
}

TEST(BertModel, DropoutDrawsFromTheDefaultGenerator) {
  BertModel model(kTiny);
  const auto ids = random_ids();
  const auto step = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return model->forward(ids);
  };
  EXPECT_TRUE(torch::equal(step(1), step(1)));
  EXPECT_FALSE(torch::equal(step(1), step(2)));
}

TEST(BertModel, RunsInASequentialWithItsDefaultArguments) {
  torch::nn::Sequential classifier(BertModel(kTiny), torch::nn::Linear(16, 3));
  EXPECT_EQ(classifier->forward(random_ids()).sizes(), (std::vector<std::int64_t>{2, 3}));
}

TEST(BertModel, RejectsHeadsThatDoNotDivide) {
  expect_value_error(
      [] { BertModel(BertOptions{.num_heads = 7}); },
      "BertModel: hidden_size is 768, but must be a multiple of num_heads, which is 7.");
}

TEST(BertModel, RejectsSequencesBeyondItsPositions) {
  expect_value_error(
      [] {
        BertModel(kTiny)->forward(torch::ones({1, 13}, torch::kLong));
      },
      "BertModel: sequence length is 13, but must be at most max_positions, which is 12.");
}

TEST(BertModel, RejectsInputThatIsNotTokenNumbers) {
  expect_value_error(
      [] {
        BertModel(kTiny)->forward(torch::ones({1, 4}));
      },
      "BertModel: input_ids is a Float tensor of shape [1, 4], but must be int64");
}

TEST(BertModel, RejectsArgumentsOfAnotherShape) {
  const auto ids = random_ids();
  expect_value_error(
      [&] {
        BertModel(kTiny)->forward(ids, torch::ones({2, 9}));
      },
      "BertModel: attention_mask is a tensor of shape [2, 9]");
  expect_value_error([&] { BertModel(kTiny)->forward(ids, {}, ids[0]); },
                     "BertModel: token_type_ids is a tensor of shape [10]");
}

}  // namespace
}  // namespace gradrecomp::models
