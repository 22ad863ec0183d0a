#include "gradrecomp/models/vit.h"

#include "models/oracle.h"

namespace gradrecomp::models {
namespace {

constexpr ViTOptions kTiny{.image_size = 32,
                           .patch_size = 8,
                           .num_layers = 2,
                           .num_heads = 2,
                           .hidden_size = 16,
                           .mlp_size = 32,
                           .num_classes = 10,
                           .zero_head = false};

ViTOptions tiny_with(std::int64_t ViTOptions::*field, std::int64_t value) {
  auto options = kTiny;
  options.*field = value;
  return options;
}

TEST(ViT, StateIsThatOfTorchvision) {
  expect_published_state(*vit_b_16(), "vit_b_16");
  expect_published_state(*vit_l_16(), "vit_l_16");
}

TEST(ViT, ParameterCountIsPublished) { EXPECT_EQ(num_parameters(*vit_b_16()), 86'567'656); }

TEST(ViT, OutputIsThatOfTorchvision) {
  ViT model(kTiny);
  load_state_dict(*model, data_file("examples/tiny_vit.state.pt"));
  model->eval();
  const auto example = read_state_dict(data_file("examples/tiny_vit.example.pt"));
  expect_close(model->forward(example["images"]), example["output"]);
}

TEST(ViT, StagesAreNamedByTheModulesTheyCover) {
  EXPECT_EQ(stage_names(ViT(kTiny)->stages()),
            (std::vector<std::string>{"patch_embedding", "encoder.layers.encoder_layer_0",
                                      "encoder.layers.encoder_layer_1", "head"}));
}

TEST(ViT, StagesFollowTheModelToAnotherMode) {
  torch::manual_seed(0);
  auto options = kTiny;
  options.dropout = options.attention_dropout = 0.5;
  ViT model(options);
  const auto stages = model->stages();
  const auto images = torch::randn({2, 3, 32, 32});
  EXPECT_FALSE(torch::equal(run(stages, images), run(stages, images)));
  model->eval();
  EXPECT_TRUE(torch::equal(run(stages, images), model->forward(images)));
}

TEST(ViT, PublishedHeadOfZerosStopsGradients) {
  ViT model(ViTOptions{.image_size = 16, .num_layers = 1, .num_heads = 2, .hidden_size = 16});
  model->forward(torch::randn({2, 3, 16, 16})).sum().backward();
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["class_token"].grad().abs().max().item<double>(), 0);
  EXPECT_GT(parameters["heads.head.weight"].grad().abs().max().item<double>(), 0);
}

TEST(ViT, TrainingReachesEveryParameter) {
  torch::manual_seed(0);
  auto options = kTiny;
  options.dropout = options.attention_dropout = 0.1;
  ViT model(options);
  expect_gradients_everywhere(*model, model->forward(torch::randn({4, 3, 32, 32})));
}

TEST(ViT, RejectsSizesThatDoNotDivide) {
  expect_value_error([] { ViT(tiny_with(&ViTOptions::image_size, 33)); },
                     "ViT: image_size is 33, but must be a multiple of patch_size, which is 8.");
  expect_value_error([] { ViT(tiny_with(&ViTOptions::num_heads, 3)); },
                     "ViT: hidden_size is 16, but must be a multiple of num_heads, which is 3.");
}

TEST(ViT, RejectsOptionsOutOfRange) {
  expect_value_error([] { ViT(tiny_with(&ViTOptions::num_heads, 0)); },
                     "ViT: num_heads is 0, but must be at least 1.");
  expect_value_error([] { ViT(ViTOptions{.attention_dropout = 1}); },
                     "ViT: attention_dropout is 1, but must be a probability in [0, 1).");
}

TEST(ViT, RejectsImagesOfAnotherSize) {
  expect_value_error(
      [] {
        ViT(kTiny)->forward(torch::zeros({1, 3, 40, 32}));
      },
      "ViT: images is a tensor of shape [1, 3, 40, 32], but must be [N, 3, 32, 32]");
}

}  // namespace
}  // namespace gradrecomp::models
