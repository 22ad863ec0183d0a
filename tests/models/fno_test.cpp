#include "gradrecomp/models/fno.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

constexpr FnoOptions kTiny{
    .in_channels = 2, .out_channels = 3, .hidden_channels = 4, .num_layers = 2, .num_modes = 6};

TEST(Fno, StateIsThatOfNeuraloperator) {
  const Fno model(FnoOptions{.in_channels = 2, .num_modes = 64});  // its readme's example
  expect_published_state(*model, "fno");
}

TEST(Fno, OutputIsThatOfNeuraloperator) {
  Fno model(kTiny);
  load_state_dict(*model, data_file("examples/tiny_fno.state.pt"));
  const auto example = read_state_dict(data_file("examples/tiny_fno.example.pt"));
  expect_close(model->forward(example["fields"]), example["output"]);
}

TEST(Fno, StagesAreNamedByTheModulesTheyCover) {
  EXPECT_EQ(stage_names(Fno(kTiny)->stages()),
            (std::vector<std::string>{"lifting", "fno_blocks.0", "fno_blocks.1", "projection"}));
}

TEST(Fno, TrainingReachesEveryParameter) {
  torch::manual_seed(0);
  Fno model(kTiny);
  const auto output = model->forward(torch::randn({2, 2, 9, 8}));
  EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{2, 3, 9, 8}));
  expect_gradients_everywhere(*model, output);
}

TEST(Fno, RejectsOptionsOutOfRange) {
  expect_value_error([] { Fno(FnoOptions{.num_layers = 0}); },
                     "Fno: num_layers is 0, but must be at least 1.");
  expect_value_error([] { Fno(FnoOptions{.num_modes = 5}); },
                     "Fno: num_modes is 5, but must be even.");
}

TEST(Fno, RejectsWhatIsNoBatchOfFields) {
  expect_value_error(
      [] {
        Fno(kTiny)->forward(torch::zeros({2, 8, 8}));
      },
      "Fno: fields is a tensor of shape [2, 8, 8], but must be [N, 2, H, W]");
  expect_value_error(
      [] {
        Fno(kTiny)->forward(torch::zeros({1, 2, 8, 5}));
      },
      "Fno: fields is a tensor of shape [1, 2, 8, 5], but must have at least");
}

}  // namespace
}  // namespace gradrecomp::models
