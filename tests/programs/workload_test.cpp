#include "workload/workload.h"

#include <torch/torch.h>

#include <limits>

#include "programs/expect_bad_input.h"
#include "programs/temporary_file.h"

namespace gradrecomp::program {
namespace {

/// Number of parameters whose gradient is zero or missing after a step.
std::int64_t num_idle_parameters(const WorkloadOptions& options) {
  Workload workload(options);
  workload.loss(nullptr).backward();
  std::int64_t num_idle = 0;
  for (const auto& parameter : workload.parameters()) {
    num_idle += !parameter.grad().defined() || parameter.grad().count_nonzero().item<int>() == 0;
  }
  return num_idle;
}

TEST(Workload, TrainsEveryParameterOfAResNet) {
  EXPECT_EQ(num_idle_parameters({.model = "resnet18", .batch = 2, .image_size = 32}), 0);
}

TEST(Workload, TrainsEveryParameterOfAViT) {
  EXPECT_EQ(num_idle_parameters({.model = "vit-b16", .batch = 2, .image_size = 32, .layers = 1}),
            0);
}

TEST(Workload, TrainsEveryParameterOfABert) {
  const TemporaryFile text("any text will do");
  EXPECT_EQ(num_idle_parameters({.model = "bert-base",
                                 .batch = 2,
                                 .sequence = 8,
                                 .layers = 1,
                                 .data = text.path().string()}),
            0);
}

TEST(Workload, TrainsEveryParameterOfADenseNet) {
  EXPECT_EQ(num_idle_parameters({.model = "densenet121", .batch = 2, .image_size = 32}), 0);
}

TEST(Workload, TrainsEveryParameterOfAGpt2) {
  EXPECT_EQ(num_idle_parameters({.model = "gpt2", .batch = 2, .sequence = 8, .layers = 1}), 0);
}

TEST(Workload, TrainsEveryParameterOfAnLstm) {
  EXPECT_EQ(num_idle_parameters({.model = "lstm-medium", .batch = 2, .sequence = 4, .layers = 1}),
            0);
}

TEST(Workload, TrainsEveryParameterOfAUNet) {
  EXPECT_EQ(num_idle_parameters(
                {.model = "unet", .batch = 2, .image_size = 32, .data = GRADRECOMP_DIGITS}),
            0);
}

TEST(Workload, TrainsEveryParameterOfAnFno) {
  EXPECT_EQ(num_idle_parameters({.model = "fno", .batch = 2, .image_size = 16, .layers = 1}), 0);
}

TEST(Workload, AsksAUNetForTheInkOfDigits) {
  const WorkloadOptions options{
      .model = "unet", .batch = 3, .image_size = 32, .data = GRADRECOMP_DIGITS};
  const Batch batch = make_batches(ModelFamily::unet, options)(0);
  ASSERT_EQ(batch.target.sizes(), (std::vector<std::int64_t>{3, 32, 32}));
  const auto gray = batch.input.mean(1);
  for (int i = 0; i < 3; ++i) {
    const auto ink = batch.target[i].to(torch::kBool);
    EXPECT_GT(gray[i].masked_select(ink).min().item<float>(),
              gray[i].masked_select(~ink).max().item<float>());
    EXPECT_GT(ink.sum().item<int>(), 20);
  }
}

TEST(Workload, AsksGpt2ForTheNextByte) {
  const TemporaryFile text("bytes come and bytes go");
  const WorkloadOptions options{
      .model = "gpt2", .batch = 2, .sequence = 4, .data = text.path().string()};
  const Batch batch = make_batches(ModelFamily::gpt, options)(0);
  EXPECT_TRUE(batch.input.view({-1}).slice(0, 1).equal(batch.target.slice(0, 0, -1)));
  EXPECT_EQ(batch.input[0][0].item<int>(), 'b');
  EXPECT_EQ(batch.target[0].item<int>(), 'y');
}

TEST(Workload, FeedsAnEncoderEmbeddingsOfNoGradient) {
  constexpr int kEmbeddingParameters = 5;
  EXPECT_EQ(
      num_idle_parameters({.model = "bert-base-encoder", .batch = 1, .sequence = 8, .layers = 1}),
      kEmbeddingParameters);
}

TEST(Workload, LoadsTheSameBatchAgain) {
  Workload workload({.model = "resnet18", .batch = 2, .image_size = 32, .data = GRADRECOMP_DIGITS});
  const auto buffers = workload.buffers();
  const float first = workload.loss(nullptr).item<float>();
  workload.load_batch(1);
  EXPECT_NE(workload.loss(nullptr).item<float>(), first);
  workload.load_batch(0);
  EXPECT_EQ(workload.loss(nullptr).item<float>(), first);
}

TEST(Workload, KeepsCountersWholeInHalfPrecision) {
  const Workload workload({.model = "resnet18", .batch = 2, .image_size = 32, .dtype = "bfloat16"});
  for (const auto& buffer : workload.buffers()) {
    EXPECT_EQ(buffer.scalar_type(), buffer.dim() == 0 ? torch::kLong : torch::kBFloat16);
  }
}

TEST(Workload, AutocastCastsInsideAndLeavesWeightsAsTheyAre) {
  Workload workload({.model = "resnet18",
                     .batch = 2,
                     .image_size = 64,
                     .autocast = "float16",
                     .channels_last = true});
  torch::Tensor scaled;
  double scale = 0;
  // Gradients that overflow in half precision halve the scale.
  for (bool fits = false; !fits && workload.gradient_scale().scale() > 1;) {
    scale = workload.gradient_scale().scale();
    workload.reset_gradients();
    const auto loss = workload.loss(nullptr);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat);
    workload.gradient_scale().backward(loss);
    scaled = workload.parameters().back().grad().clone();
    fits = workload.gradient_scale().unscale(workload.parameters());
  }
  EXPECT_TRUE(scaled.equal(workload.parameters().back().grad() * scale));
  for (const auto& parameter : workload.parameters()) {
    EXPECT_EQ(parameter.scalar_type(), torch::kFloat);
    EXPECT_TRUE(parameter.dim() != 4 || parameter.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(Workload, FindsGradientsAsTheOptionsSay) {
  Workload none({.batch = 2, .image_size = 32, .gradients = "none"});
  none.loss(nullptr).backward();
  none.reset_gradients();
  EXPECT_FALSE(none.parameters().front().grad().defined());
  Workload preallocated({.batch = 2, .image_size = 32});
  preallocated.reset_gradients();
  const auto* memory = preallocated.parameters().front().grad().const_data_ptr();
  preallocated.loss(nullptr).backward();
  preallocated.reset_gradients();
  EXPECT_EQ(preallocated.parameters().front().grad().const_data_ptr(), memory);
  EXPECT_EQ(preallocated.parameters().front().grad().count_nonzero().item<int>(), 0);
}

TEST(GradientScale, LeavesOutAStepThatOverflowsAndGoesOnSmaller) {
  auto weight = torch::ones({2}).requires_grad_();
  GradientScale scale(1024, torch::kCPU);
  scale.backward((weight * std::numeric_limits<float>::max()).sum());
  EXPECT_FALSE(scale.unscale({weight}));
  EXPECT_EQ(scale.scale(), 512);
  weight.mutable_grad() = torch::Tensor();
  scale.backward((weight * 3).sum());
  EXPECT_TRUE(scale.unscale({weight}));
  EXPECT_TRUE(weight.grad().equal(torch::full({2}, 3.0)));
}

TEST(Workload, RefusesOptionsOfOtherModels) {
  expect_bad_input([] { Workload({.model = "bert-base", .image_size = 64}); },
                   "--model is bert-base, but must be an image model for --image-size. Leave "
                   "--image-size out.");
  expect_bad_input([] { Workload({.model = "vit-b16", .sequence = 8}); },
                   "but must be a text model for --sequence.");
  expect_bad_input([] { Workload({.model = "resnet18", .layers = 2}); },
                   "but must be a transformer, LSTM or FNO for --layers.");
  expect_bad_input([] { Workload({.model = "bert-base", .channels_last = true}); },
                   "--model is bert-base, but must be an image model for --channels-last.");
}

TEST(Workload, RefusesWhatDoesNotFitTheModel) {
  expect_bad_input([] { Workload({.model = "densenet121", .image_size = 16}); },
                   "--image-size is 16, but must be at least 32 for a DenseNet, such as 64.");
  expect_bad_input([] { Workload({.batch = 1, .image_size = 32}); }, "where the batch is 1");
  expect_bad_input([] { Workload({.model = "densenet121", .batch = 1, .image_size = 40}); },
                   "--image-size is 40, but must be above 60 where the batch is 1");
  expect_bad_input([] { Workload({.model = "vit-b16", .image_size = 40}); }, "a multiple of 16");
  expect_bad_input([] { Workload({.model = "bert-base", .layers = 13}); },
                   "--layers is 13, but must be at most 12 for bert-base");
  expect_bad_input([] { Workload({.model = "unet", .image_size = 15}); },
                   "--image-size is 15, but must be at least 16 for this model, such as 64.");
  expect_bad_input([] { Workload({.model = "fno", .image_size = 16, .dtype = "bfloat16"}); },
                   "--dtype is bfloat16, but must be float32 for an FNO");
  expect_bad_input([] { Workload({.dtype = "float16"}); }, "float32 or bfloat16 on the CPU");
  expect_bad_input([] { Workload({.dtype = "bfloat16", .autocast = "bfloat16"}); },
                   "--dtype is bfloat16, but must be float32 for --autocast");
}

}  // namespace
}  // namespace gradrecomp::program
