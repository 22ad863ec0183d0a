#include "gradrecomp/models/resnet.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

constexpr ResNetOptions kTiny{
    .block = ResNetBlock::bottleneck, .num_blocks = {1, 2, 1, 1}, .num_classes = 10, .width = 2};

constexpr ResNetOptions kTinyBasic{
    .block = ResNetBlock::basic, .num_blocks = {1, 2, 1, 1}, .num_classes = 10, .width = 2};

void expect_example(const ResNetOptions& options, const std::string& name) {
  ResNet model(options);
  load_state_dict(*model, data_file("examples/" + name + ".state.pt"));
  model->eval();
  const auto example = read_state_dict(data_file("examples/" + name + ".example.pt"));
  expect_close(model->forward(example["images"]), example["output"]);
}

TEST(ResNet, StateIsThatOfTorchvision) {
  expect_published_state(*resnet18(), "resnet18");
  expect_published_state(*resnet50(), "resnet50");
  expect_published_state(*resnet152(), "resnet152");
}

TEST(ResNet, ParameterCountsArePublished) {
  EXPECT_EQ(num_parameters(*resnet18()), 11'689'512);
  EXPECT_EQ(num_parameters(*resnet34()), 21'797'672);
  EXPECT_EQ(num_parameters(*resnet50()), 25'557'032);
  EXPECT_EQ(num_parameters(*resnet101()), 44'549'160);
  EXPECT_EQ(num_parameters(*resnet152()), 60'192'808);
  EXPECT_EQ(num_parameters(*resnet18(10)), 11'689'512 - 990 * 513);
}

TEST(ResNet, DefaultOptionsAreResNet50) {
  EXPECT_EQ(state_lines(*ResNet()), state_lines(*resnet50()));
}

TEST(ResNet, OutputIsThatOfTorchvision) {
  expect_example(kTinyBasic, "tiny_resnet_basic");
  expect_example(kTiny, "tiny_resnet_bottleneck");
}

TEST(ResNet, StagesAreNamedByTheModulesTheyCover) {
  EXPECT_EQ(stage_names(ResNet(kTiny)->stages()),
            (std::vector<std::string>{"stem", "layer1.0", "layer2.0", "layer2.1", "layer3.0",
                                      "layer4.0", "head"}));
}

TEST(ResNet, StagesOutliveTheModel) {
  torch::manual_seed(0);
  const auto images = torch::randn({2, 3, 32, 32});
  auto model = ResNet(kTiny);
  const auto stages = model->stages();
  const auto output = model->forward(images);
  model = nullptr;
  EXPECT_TRUE(torch::equal(run(stages, images), output));
}

TEST(ResNet, StartsWithTheConvolutionsScaledToTheirOutputs) {
  torch::manual_seed(0);
  const auto parameters = resnet18()->named_parameters();
  // He initialization by fan-out: standard deviation sqrt(2 / (512 * 3 * 3)).
  EXPECT_NEAR(parameters["layer4.1.conv2.weight"].std().item<double>(), 0.0208333, 1e-4);
}

TEST(ResNet, TrainingReachesEveryParameter) {
  torch::manual_seed(0);
  for (const auto& options : {kTiny, kTinyBasic}) {
    ResNet model(options);
    expect_gradients_everywhere(*model, model->forward(torch::randn({4, 3, 64, 64})));
  }
}

TEST(ResNet, TrainingStepIsDeterministic) {
  const auto step = [] {
    torch::manual_seed(0);
    ResNet model(kTiny);
    model->forward(torch::randn({2, 3, 32, 32})).square().sum().backward();
    return model->parameters().front().grad();
  };
  EXPECT_TRUE(torch::equal(step(), step()));
}

TEST(ResNet, RejectsEmptyLayers) {
  expect_value_error(
      [] {
        ResNet(ResNetOptions{.num_blocks = {3, 4, 0, 3}});
      },
      "ResNet: num_blocks[2] is 0, but must be at least 1.");
}

TEST(ResNet, RejectsImagesWithoutBatch) {
  expect_value_error(
      [] {
        ResNet(kTiny)->forward(torch::zeros({3, 32, 32}));
      },
      "ResNet: images is a tensor of shape [3, 32, 32], but must be [N, 3, H, W].");
}

}  // namespace
}  // namespace gradrecomp::models
