#include "gradrecomp/models/unet.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

constexpr UNetOptions kTiny{.width = 2};

void expect_output(const UNetOptions& options, const std::string& name) {
  UNet model(options);
  load_state_dict(*model, data_file("examples/" + name + ".state.pt"));
  model->eval();
  const auto example = read_state_dict(data_file("examples/" + name + ".example.pt"));
  expect_close(model->forward(example["images"]), example["output"]);
}

TEST(UNet, StateIsThatOfPyTorchHub) {
  const auto model = unet_carvana();
  expect_published_state(*model, "unet_carvana");
  EXPECT_EQ(num_parameters(*model), 31'037'698);
}

TEST(UNet, OutputIsThatOfPyTorchHub) {
  expect_output(kTiny, "tiny_unet");
  expect_output({.width = 2, .bilinear = true}, "tiny_unet_bilinear");
}

TEST(UNet, StagesAreNamedByTheModulesTheyCover) {
  EXPECT_EQ(stage_names(UNet(kTiny)->stages()),
            (std::vector<std::string>{"inc", "down1", "down2", "down3", "down4", "up1", "up2",
                                      "up3", "up4", "outc"}));
}

TEST(UNet, TrainingReachesEveryParameter) {
  for (const bool bilinear : {false, true}) {
    torch::manual_seed(0);
    UNet model(UNetOptions{.width = 2, .bilinear = bilinear});
    const auto output = model->forward(torch::randn({2, 3, 33, 47}));
    EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{2, 2, 33, 47}));
    expect_gradients_everywhere(*model, output);
  }
}

TEST(UNet, StagesServeOnePassAfterAnother) {
  torch::manual_seed(0);
  UNet model(kTiny);
  model->eval();
  const auto images = torch::randn({1, 3, 32, 32});
  const auto stages = model->stages();
  const auto first = run(stages, images);
  auto x = images;
  for (std::size_t i = 0; i < 3; ++i) x = stages[i].forward(x);  // a pass that never ends
  EXPECT_TRUE(run(stages, images).equal(first));
}

TEST(UNet, RejectsOptionsOutOfRange) {
  expect_value_error([] { UNet(UNetOptions{.num_classes = 0}); },
                     "UNet: num_classes is 0, but must be at least 1.");
}

TEST(UNet, RejectsWhatIsNoBatchOfImages) {
  expect_value_error(
      [] {
        UNet(kTiny)->forward(torch::zeros({3, 32, 32}));
      },
      "UNet: images is a tensor of shape [3, 32, 32], but must be [N, 3, H, W]");
  expect_value_error(
      [] {
        UNet(kTiny)->forward(torch::zeros({1, 3, 32, 15}));
      },
      "but must be of at least 16 x 16 pixels.");
}

}  // namespace
}  // namespace gradrecomp::models
