// Conformance M10: a first step, which has no plan yet, takes less than plain training.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "gradrecomp/checkpointed_sequential.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/models/unet.h"
#include "gradrecomp/region.h"
#include "gradrecomp/report.h"
#include "support/live_memory.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;

class FirstStep : public LiveMemory {};

TEST_F(FirstStep, HoldsABoundaryForEachWindowAndTheLastWindow) {
  constexpr std::int64_t kValueBytes = 4096;
  const auto x = leaf_with_gradient({kValueBytes / 4});
  for (const int length : {32, 128, 512}) {
    Region region({.policy = "drop_all"});
    const auto peak =
        peak_of([&] { return region.run([&] { return sine_chain(x, length); }).sum(); });
    const double num_values = static_cast<double>(peak) / kValueBytes;
    constexpr int kVerified = 4;  // beside the window
    EXPECT_LE(num_values, 2 * std::sqrt(2 * length) + kVerified) << length;
    EXPECT_GT(region.last_step().num_replayed_ops, 0) << length;
  }
}

TEST_F(FirstStep, ReplaysNothingOfItsLastWindow) {
  const auto x = leaf_with_gradient({1024});
  Region region({.policy = "drop_all", .window_bytes = std::int64_t{1} << 30});
  const auto step = [&] { region.run([&] { return sine_chain(x); }).sum().backward(); };
  step();
  EXPECT_EQ(region.last_step().num_replayed_ops, 0) << "all is in one window";
  step();
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

std::int64_t num_squares = 0;

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) { library.def("square(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(gradrecomp_test, CPU, library) {
  library.impl("square", [](const at::Tensor& x) {
    ++num_squares;
    return x * x;
  });
}

at::Tensor counted_square(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gradrecomp_test::square", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x.detach());
}

// The sum is a boundary of every window, and the next one writes to it. So does a buffer that a
// loop fills.
TEST_F(FirstStep, MakesWhatIsWrittenFromWindowToWindowOnceAgain) {
  constexpr int kNumLayers = 128;
  const auto x = leaf_with_gradient({256});
  Region region({.policy = "drop_all"});
  num_squares = 0;
  const auto y = region.run([&] {
    auto h = x.sin();
    const auto sum = torch::zeros({256});
    const auto all = torch::empty({kNumLayers, 256});
    for (int layer = 0; layer < kNumLayers; ++layer) {
      h = h.sin();
      sum.add_(counted_square(h));
      all[layer].copy_(counted_square(h));
    }
    return h.sum() + sum.sum() + all.sum();
  });
  constexpr int kInForward = 2 * kNumLayers;
  EXPECT_LE(num_squares, 2 * kInForward);
  y.backward();
  EXPECT_LE(num_squares, 3 * kInForward);
}

/// The peak of the first step over that of a plain step.
double first_over_plain(nn::Module& module, const std::function<at::Tensor()>& forward) {
  preallocate_gradients(module);
  const auto plain = peak_of([&] { return forward().sum(); });
  Region region;
  const auto first = peak_of([&] { return region.run(forward).sum(); });
  return static_cast<double>(first) / static_cast<double>(plain);
}

TEST_F(FirstStep, OfAResNetTakesThreeQuartersOfPlain) {
  auto model = models::resnet18(10);
  const auto images = torch::randn({16, 3, 96, 96});
  EXPECT_LT(first_over_plain(*model, [&] { return model->forward(images); }), 0.75);
}

TEST_F(FirstStep, OfAUNetTakesThreeQuartersOfPlain) {
  models::UNet model{models::UNetOptions{.width = 16}};
  const auto images = torch::randn({2, 3, 128, 128});
  EXPECT_LT(first_over_plain(*model, [&] { return model->forward(images); }), 0.75);
}

// The first of them are the largest, and an op has little to drop.
TEST_F(FirstStep, OfAChainOfConvolutionsTakesLessThanPlain) {
  nn::Sequential model;
  for (int layer = 0; layer < 6; ++layer) {
    const int inputs = layer == 0 ? 3 : 16;
    model->push_back(nn::Conv2d(nn::Conv2dOptions(inputs, 16, 3).padding(1)));
    model->push_back(nn::BatchNorm2d(16));
    model->push_back(nn::ReLU());
  }
  const auto images = torch::randn({4, 3, 64, 64});
  EXPECT_LT(first_over_plain(*model, [&] { return model->forward(images); }), 0.9);
}

/// Convolutions with a ReLU in place, each in a stage of its own if it `has_stages`.
struct InPlaceConvolutions {
  nn::Sequential model;
  at::Tensor images = torch::randn({4, 3, 96, 96});
  bool has_stages = false;

  InPlaceConvolutions() {
    for (int layer = 0; layer < 5; ++layer) {
      model->push_back(nn::Conv2d(nn::Conv2dOptions(layer == 0 ? 3 : 16, 16, 3).padding(1)));
      model->push_back(nn::BatchNorm2d(16));
      model->push_back(nn::ReLU(nn::ReLUOptions(true)));
    }
    preallocate_gradients(*model);
  }
  at::Tensor forward() {
    auto h = images;
    int module = 0;
    for (auto& each : *model) {
      if (has_stages && module % 3 == 0) begin_stage("convolution " + std::to_string(module));
      h = each.any_forward(h).get<at::Tensor>();
      ++module;
    }
    return h.pow(2).mean();
  }
};

// What is written in place ends no window early and is held for no later one.
TEST_F(FirstStep, OfConvolutionsActivatedInPlaceTakesLessThanPlain) {
  InPlaceConvolutions net;
  const auto plain = static_cast<double>(peak_of([&] { return net.forward(); }));
  for (const bool substitutes : {true, false}) {
    for (const bool has_stages : {false, true}) {
      net.has_stages = has_stages;
      Region region(
          {.max_overhead = 0.1, .cost = plan::CostModel::flops, .substitutes = substitutes});
      const auto step = [&] { return region.run([&] { return net.forward(); }); };
      const auto first = static_cast<double>(peak_of(step));
      const auto second = static_cast<double>(peak_of(step));
      EXPECT_LT(first, 0.7 * plain) << substitutes << has_stages;
      EXPECT_LT(second, first) << substitutes << has_stages;
      EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
    }
  }
}

// Each of its modules is a stage.
TEST_F(FirstStep, OfAWrappedSequentialTakesLessThanPlain) {
  nn::Sequential model;
  for (int layer = 0; layer < 24; ++layer) {
    model->push_back(nn::Linear(64, 64));
    model->push_back(nn::Tanh());
  }
  const auto x = torch::randn({1024, 64});
  preallocate_gradients(*model);
  const auto plain = peak_of([&] { return model->forward(x).sum(); });
  CheckpointedSequential net(model);
  const auto first = peak_of([&] { return net->forward(x).sum(); });
  EXPECT_LT(2 * first, plain);
}

/// x -> exp -> norm, both of 2 MiB, in a first step; in such bytes.
double peak_of_norm(const std::function<at::Tensor(at::Tensor)>& norm, at::Tensor x) {
  Region region({.policy = "drop_all"});
  const auto peak = peak_of([&] { return region.run([&] { return norm(x.exp()); }).sum(); });
  return static_cast<double>(peak) / static_cast<double>(x.nbytes());
}

TEST_F(FirstStep, TriesKernelsForANormBesideOneCopyOfItsResult) {
  constexpr double kMost = 4.5;  // both, one that a kernel made and parts of patterns
  const auto images = leaf_with_gradient({8, 16, 64, 64});
  EXPECT_LT(peak_of_norm(
                [](const at::Tensor& x) {
                  return torch::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false);
                },
                images),
            kMost);
  const auto rows = leaf_with_gradient({2048, 256});
  EXPECT_LT(peak_of_norm([](const at::Tensor& x) { return torch::layer_norm(x, {256}); }, rows),
            kMost);
}

TEST_F(FirstStep, FindsKernelsForLargeNorms) {
  const auto weight = torch::randn({256});
  const auto all = torch::randn({2048, 256});
  const auto rows = leaf_with_gradient({2048, 256});
  const auto replays = [&](const std::function<at::Tensor(at::Tensor)>& norm) {
    Region region({.policy = "drop_all"});
    for (int step = 0; step < 2; ++step) {
      region.run([&] { return norm(rows.exp()).sin(); }).sum().backward();
    }
    return region.last_step().num_substituted_ops;
  };
  EXPECT_EQ(replays([&](const at::Tensor& x) { return torch::layer_norm(x, {256}, weight); }), 1);
  EXPECT_EQ(replays([&](const at::Tensor& x) {
              return torch::layer_norm(x, {2048, 256}, all);
            }),
            1)
      << "one row, of which there is no part";
  EXPECT_EQ(replays([&](const at::Tensor& x) {
              return torch::batch_norm(x, weight, {}, {}, {}, true, 0.1, 1e-5, false);
            }),
            1);
}

}  // namespace
}  // namespace gradrecomp::test
