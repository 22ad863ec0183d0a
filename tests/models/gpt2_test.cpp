#include "gradrecomp/models/gpt2.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

constexpr Gpt2Options kTiny{
    .vocab_size = 40, .max_positions = 12, .hidden_size = 16, .num_layers = 2, .num_heads = 2};

torch::Tensor random_ids() { return torch::randint(40, {2, 10}, torch::kLong); }

TEST(Gpt2Model, SmallIsThatOfHuggingFace) {
  const auto model = gpt2();
  expect_published_state(*model, "gpt2");
  EXPECT_EQ(num_parameters(*model), 124'439'808);
}

TEST(Gpt2Model, MediumIsThatOfHuggingFace) {
  const auto model = gpt2_medium();
  expect_published_state(*model, "gpt2_medium");
  EXPECT_EQ(num_parameters(*model), 354'823'168);
}

TEST(Gpt2Model, OutputIsThatOfHuggingFace) {
  Gpt2Model model(kTiny);
  load_state_dict(*model, data_file("examples/tiny_gpt2.state.pt"));
  model->eval();
  const auto example = read_state_dict(data_file("examples/tiny_gpt2.example.pt"));
  expect_close(model->forward(example["input_ids"]), example["output"]);
}

TEST(Gpt2Model, TokensDoNotSeeThoseAfterThem) {
  torch::manual_seed(0);
  Gpt2Model model(kTiny);
  model->eval();
  const auto ids = random_ids();
  auto others = ids.clone();
  others.slice(1, 6) = (others.slice(1, 6) + 1).remainder(40);
  const auto output = model->forward(ids);
  const auto changed = model->forward(others);
  EXPECT_TRUE(torch::allclose(output.slice(1, 0, 6), changed.slice(1, 0, 6)));
  EXPECT_FALSE(torch::allclose(output.slice(1, 6), changed.slice(1, 6)));
}

TEST(Gpt2Model, LastLayersOfBranchesStartNarrower) {
  torch::manual_seed(0);
  const auto parameters = Gpt2Model(Gpt2Options{.num_layers = 2})->named_parameters();
  EXPECT_NEAR(parameters["wte.weight"].std().item<double>(), 0.02, 1e-4);
  EXPECT_NEAR(parameters["h.0.mlp.c_fc.weight"].std().item<double>(), 0.02, 1e-4);
  EXPECT_NEAR(parameters["h.0.mlp.c_proj.weight"].std().item<double>(), 0.01, 1e-4);
  EXPECT_EQ(parameters["h.0.attn.c_attn.bias"].abs().max().item<double>(), 0);
}

TEST(Gpt2Model, StagesAreNamedByTheModulesTheyCover) {
  EXPECT_EQ(stage_names(Gpt2Model(kTiny)->stages()),
            (std::vector<std::string>{"embeddings", "h.0", "h.1", "ln_f"}));
}

TEST(Gpt2Model, TrainingReachesEveryParameterButUnusedRows) {
  torch::manual_seed(0);
  Gpt2Model model(kTiny);
  const auto every_word = torch::arange(40).view({4, 10});
  expect_gradients_everywhere(*model, model->forward(every_word));
}

TEST(Gpt2Model, RejectsOptionsOutOfRange) {
  expect_value_error([] { Gpt2Model(Gpt2Options{.num_heads = 7}); },
                     "Gpt2Model: hidden_size is 768, but must be a multiple of num_heads, which "
                     "is 7.");
  expect_value_error([] { Gpt2Model(Gpt2Options{.dropout = 1}); },
                     "Gpt2Model: dropout is 1, but must be a probability in [0, 1).");
}

TEST(Gpt2Model, RejectsInputThatIsNotTokens) {
  expect_value_error(
      [] {
        Gpt2Model(kTiny)->forward(torch::zeros({2, 3}));
      },
      "Gpt2Model: input_ids is a Float tensor of shape [2, 3], but must be int64 "
      "[N, S].");
  expect_value_error(
      [] {
        Gpt2Model(kTiny)->forward(torch::zeros({1, 13}, torch::kLong));
      },
      "Gpt2Model: sequence length is 13, but must be at most max_positions, which is 12.");
}

}  // namespace
}  // namespace gradrecomp::models
