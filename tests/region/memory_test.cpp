// Conformance M: what stays in memory, and that predictions are exact.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/nn/checkpoint.h"
#include "gradrecomp/nn/checkpointed_sequential.h"
#include "gradrecomp/plan/simulate.h"
#include "gradrecomp/profile/memory_meter.h"
#include "gradrecomp/region/region.h"
#include "gradrecomp/tape/recorder.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using profile::MemoryMeter;

class Memory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { profile::install_cpu_counter(); }
};

void preallocate_gradients(nn::Module& module) {
  for (auto& parameter : module.parameters())
    parameter.mutable_grad() = torch::zeros_like(parameter);
}

// Measured activation peak of one step.
std::int64_t peak_of(const std::function<at::Tensor()>& loss) {
  const MemoryMeter meter(c10::kCPU);
  loss().backward();
  return meter.measured_peak_bytes();
}

template <typename Model>
void expect_predicted_peaks(Model model, const at::Tensor& input, bool preallocate) {
  const auto forward = [&] {
    at::Tensor x = input;
    for (auto& stage : model->stages()) {
      begin_stage(stage.name);
      x = stage.forward(x);
    }
    return x;
  };
  std::int64_t num_replayed_ops = 0;
  for (const Options& options : every_policy()) {
    Region region(options);
    const auto step = [&] {
      if (preallocate) {
        preallocate_gradients(*model);
      } else {
        model->zero_grad();
      }
      return peak_of([&] { return region.run(forward).pow(2).sum(); });
    };
    step();
    const auto measured = step();
    EXPECT_EQ(measured, region.plan().predicted_peak_bytes) << region.brief_report();
    EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops);
    EXPECT_TRUE(region.last_step().followed_plan);
    num_replayed_ops += region.last_step().num_replayed_ops;
  }
  EXPECT_GT(num_replayed_ops, 0);
}

TEST_F(Memory, M3AndM9PredictedPeakAndReplaysOfAResNetAreExact) {
  torch::manual_seed(1);
  expect_predicted_peaks(models::resnet18(10), torch::randn({2, 3, 32, 32}), true);
}

TEST_F(Memory, M3PredictedPeakIsExactWithoutPreallocatedGradients) {
  torch::manual_seed(1);
  expect_predicted_peaks(models::resnet18(10), torch::randn({2, 3, 32, 32}), false);
}

TEST_F(Memory, M3AndM9PredictedPeakAndReplaysOfABertAreExact) {
  torch::manual_seed(1);
  const models::BertOptions options{.vocab_size = 50,
                                    .hidden_size = 32,
                                    .num_layers = 4,
                                    .num_heads = 2,
                                    .intermediate_size = 64,
                                    .max_positions = 32};
  expect_predicted_peaks(models::BertModel(options), torch::randint(0, 50, {2, 24}), true);
}

// y_i = sin(y_(i-1)): every sine saves its input, n values of w bytes.
constexpr int kChainLength = 6;
constexpr std::int64_t kChainBytes = 4096;

at::Tensor sine_chain(at::Tensor x) {
  for (int i = 0; i < kChainLength; ++i) x = x.sin();
  return x;
}

TEST_F(Memory, M1EveryKeptSubsetOfAChainRetainsItsBytesAndReplaysTheRest) {
  for (int kept = 0; kept < 1 << (kChainLength - 1); ++kept) {
    auto x = torch::randn({kChainBytes / 4}).requires_grad_();
    // Value 0 is the input, value i the output of sine i; the last is nobody's input.
    auto keep = std::make_shared<std::vector<std::uint8_t>>(kChainLength + 1, 0);
    int num_kept = 0;
    for (int i = 0; i + 1 < kChainLength; ++i) num_kept += (*keep)[i + 1] = (kept >> i) & 1;
    const MemoryMeter meter(c10::kCPU);
    auto tape = std::make_shared<tape::Tape>();
    at::Tensor y;
    {
      const tape::Recorder recorder(tape, {nullptr, keep});
      y = sine_chain(x);
    }
    tape->seal();
    EXPECT_EQ(meter.growth_bytes(), (num_kept + 1) * kChainBytes) << "kept set " << kept;
    y.backward(torch::ones_like(y));
    EXPECT_EQ(tape->num_replayed_ops(), kChainLength - 1 - num_kept) << "kept set " << kept;
  }
}

TEST_F(Memory, M2LiveBytesFallInBackwardAsTheSimulatorSays) {
  auto x = torch::randn({1024}).requires_grad_();
  Region region({.policy = "every_2"});
  std::vector<std::int64_t> live;
  const auto forward = [&] {
    at::Tensor y = x;
    for (int i = 0; i < kChainLength; ++i) {
      begin_stage(std::to_string(i));
      y = y.sin();
      y.register_hook([&live](at::Tensor gradient) {
        live.push_back(profile::memory_counter(c10::kCPU).current_bytes);
        return gradient;
      });
    }
    return y;
  };
  preallocate_gradients(*std::make_shared<nn::Module>());
  region.run(forward).sum().backward();
  live.clear();
  const auto start = profile::memory_counter(c10::kCPU).current_bytes;
  region.run(forward).sum().backward();
  ASSERT_EQ(live.size(), static_cast<std::size_t>(kChainLength));
  std::vector<std::int64_t> simulated;
  plan::simulate(region.graph(), region.plan().keep, simulated);
  for (const auto bytes : live) {
    EXPECT_NE(std::find(simulated.begin(), simulated.end(), bytes - start), simulated.end())
        << bytes - start << " is live at no moment of the simulation";
  }
  EXPECT_LT(live.back(), live.front());
}

TEST_F(Memory, M5DroppingTheOutputReturnsLiveBytesToTheStart) {
  auto x = torch::randn({64, 64}).requires_grad_();
  for (const char* policy : {"drop_all", "keep_all"}) {
    Region region({.policy = policy});
    const auto start = profile::memory_counter(c10::kCPU).current_bytes;
    for (int i = 0; i < 3; ++i) {
      auto y = region.run([&] { return sine_chain(x).sum(); });
      EXPECT_GT(profile::memory_counter(c10::kCPU).current_bytes, start);
      y = at::Tensor();
      EXPECT_EQ(profile::memory_counter(c10::kCPU).current_bytes, start);
    }
  }
}

TEST_F(Memory, M6LiveBytesStayFlatOverManySteps) {
  nn::Sequential model(nn::Linear(8, 8), nn::GELU(), nn::Linear(8, 8), nn::Tanh());
  preallocate_gradients(*model);
  CheckpointedSequential net(model, Options{.policy = "every_1"});
  std::int64_t flat = 0;
  for (int step = 0; step < 1000; ++step) {
    net->forward(torch::ones({4, 8})).sum().backward();
    const auto live = profile::memory_counter(c10::kCPU).current_bytes;
    if (step == 2) flat = live;
    if (step > 2) {
      ASSERT_EQ(live, flat) << "step " << step;
    }
  }
}

TEST_F(Memory, M7BackwardThatThrowsLeavesNothingBehind) {
  auto x = torch::randn({32, 32}).requires_grad_();
  x.mutable_grad() = torch::zeros_like(x);
  Region region({.policy = "drop_all"});
  bool fail = false;
  const auto step = [&] {
    return peak_of([&] {
      return region
          .run([&] {
            auto y = x.sin().exp();
            y.register_hook([&](at::Tensor gradient) {
              TORCH_CHECK(!fail, "a user's hook fails");
              return gradient;
            });
            return y.cos().tanh();
          })
          .sum();
    });
  };
  step();
  const auto start = profile::memory_counter(c10::kCPU).current_bytes;
  const auto first = step();
  fail = true;
  EXPECT_THROW(step(), c10::Error);
  fail = false;
  EXPECT_EQ(profile::memory_counter(c10::kCPU).current_bytes, start);
  EXPECT_EQ(step(), first);
}

TEST_F(Memory, M8NoGradRecordsAndRetainsNothing) {
  auto x = torch::randn({64}).requires_grad_();
  Region region({.policy = "drop_all"});
  const torch::NoGradGuard no_grad;
  const auto start = profile::memory_counter(c10::kCPU).current_bytes;
  const auto y = region.run([&] {
    EXPECT_EQ(tape::Recorder::current(), nullptr);
    return x.sin().cos();
  });
  EXPECT_EQ(profile::memory_counter(c10::kCPU).current_bytes - start, 256);
  EXPECT_EQ(region.last_step().num_ops, 0);
}

TEST_F(Memory, M8EvalModeRecordsNothing) {
  nn::Sequential model(nn::Linear(4, 4), nn::Tanh());
  CheckpointedSequential net(model, Options{.policy = "drop_all"});
  net->eval();
  const auto y = net->forward(torch::randn({2, 4}));
  EXPECT_EQ(net->region().last_step().num_ops, 0);
  EXPECT_TRUE(y.requires_grad());
}

TEST_F(Memory, M10FirstStepStaysFarBelowThePlainPeak) {
  torch::manual_seed(1);
  auto model = models::resnet18(10);
  preallocate_gradients(*model);
  const auto images = torch::randn({4, 3, 64, 64});
  const auto forward = [&] {
    at::Tensor x = images;
    for (auto& stage : model->stages()) {
      begin_stage(stage.name);
      x = stage.forward(x);
    }
    return x;
  };
  const auto plain = peak_of([&] { return forward().sum(); });
  Region region({.policy = "every_1"});
  const auto first = peak_of([&] { return region.run(forward).sum(); });
  const auto second = peak_of([&] { return region.run(forward).sum(); });
  EXPECT_LT(second, plain);
  EXPECT_EQ(first, second)
      << "the first step runs under the plan that keeps every stage's boundary";
}

TEST_F(Memory, M11ViewsOfOneStorageAreCountedOnce) {
  auto x = torch::randn({256}).requires_grad_();
  Region region({.policy = "keep_all"});
  const auto step = [&] {
    auto y = region.run([&] {
      const auto base = x.exp();
      return base.slice(0, 0, 128).sin().sum() + base.slice(0, 128, 256).sin().sum();
    });
    const auto tape_bytes = region.has_plan() ? region.graph() : plan::Graph{};
    y.backward();
    return tape_bytes;
  };
  step();
  const auto graph = step();
  std::int64_t saved = 0;
  for (const auto& value : graph.values) saved += value.saved ? value.bytes : 0;
  EXPECT_EQ(saved, 256 * 4) << "exp's output, which both slices and exp itself save";
}

TEST_F(Memory, M12ManyTapesAliveAtOnce) {
  auto x = torch::randn({128}).requires_grad_();
  x.mutable_grad() = torch::zeros_like(x);
  const auto start = profile::memory_counter(c10::kCPU).current_bytes;
  Region region({.policy = "drop_all"});
  region.run([&] { return sine_chain(x).sum(); }).backward();
  std::vector<at::Tensor> losses;
  for (int i = 0; i < 20; ++i) losses.push_back(region.run([&] { return sine_chain(x).sum(); }));
  EXPECT_EQ(profile::memory_counter(c10::kCPU).current_bytes - start, 20 * 4) << "the losses only";
  for (auto& loss : losses) loss.backward();
  losses.clear();
  EXPECT_EQ(profile::memory_counter(c10::kCPU).current_bytes, start);
}

TEST_F(Memory, DropAllLeavesUnderThreePercentAliveAfterForward) {
  torch::manual_seed(1);
  auto model = models::resnet50(10);
  const auto images = torch::randn({2, 3, 64, 64});
  const auto alive_after = [&](const std::function<at::Tensor()>& forward) {
    const MemoryMeter meter(c10::kCPU);
    const auto loss = forward();
    return meter.growth_bytes();
  };
  const auto plain = alive_after([&] { return model->forward(images).sum(); });
  const auto dropped =
      alive_after([&] { return run_dropped([&] { return model->forward(images).sum(); }); });
  EXPECT_LT(dropped, plain * 3 / 100);
}

}  // namespace
}  // namespace gradrecomp::test
