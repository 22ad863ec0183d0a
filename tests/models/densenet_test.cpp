#include "gradrecomp/models/densenet.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

constexpr DenseNetOptions kTiny{.growth_rate = 4,
                                .num_layers = {1, 2, 1, 2},
                                .stem_width = 6,
                                .bottleneck_ratio = 2,
                                .num_classes = 10};

TEST(DenseNet, StateIsThatOfTorchvision) {
  expect_published_state(*densenet121(), "densenet121");
  expect_published_state(*densenet201(), "densenet201");
}

TEST(DenseNet, ParameterCountsArePublished) {
  EXPECT_EQ(num_parameters(*densenet121()), 7'978'856);
  EXPECT_EQ(num_parameters(*densenet201()), 20'013'928);
}

TEST(DenseNet, OutputIsThatOfTorchvision) {
  DenseNet model(kTiny);
  load_state_dict(*model, data_file("examples/tiny_densenet.state.pt"));
  model->eval();
  const auto example = read_state_dict(data_file("examples/tiny_densenet.example.pt"));
  expect_close(model->forward(example["images"]), example["output"]);
}

TEST(DenseNet, StagesAreNamedByTheModulesTheyCover) {
  EXPECT_EQ(stage_names(DenseNet(kTiny)->stages()),
            (std::vector<std::string>{
                "stem", "denseblock1.denselayer1", "transition1", "denseblock2.denselayer1",
                "denseblock2.denselayer2", "transition2", "denseblock3.denselayer1", "transition3",
                "denseblock4.denselayer1", "denseblock4.denselayer2", "head"}));
}

TEST(DenseNet, TrainingReachesEveryParameter) {
  torch::manual_seed(0);
  DenseNet model(kTiny);
  expect_gradients_everywhere(*model, model->forward(torch::randn({4, 3, 64, 64})));
}

TEST(DenseNet, RejectsOptionsOutOfRange) {
  expect_value_error([] { DenseNet(DenseNetOptions{.growth_rate = 0}); },
                     "DenseNet: growth_rate is 0, but must be at least 1.");
}

TEST(DenseNet, RejectsWhatIsNoBatchOfImages) {
  expect_value_error(
      [] {
        DenseNet(kTiny)->forward(torch::zeros({3, 32, 32}));
      },
      "DenseNet: images is a tensor of shape [3, 32, 32], but must be [N, 3, H, W]");
}

}  // namespace
}  // namespace gradrecomp::models
