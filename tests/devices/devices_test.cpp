// Regions that use two devices: the peak of each is the predicted one, and budgets hold on both.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "support/host_device/host_device.h"
#include "support/live_memory.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TwoDevices : public LiveMemory {};

nn::Sequential device_layers(int num_layers) {
  nn::Sequential layers;
  for (int i = 0; i < num_layers; ++i) {
    layers->push_back(nn::Linear(32, 32));
    layers->push_back(nn::GELU());
    layers->push_back(nn::Linear(32, 32));
    layers->push_back(nn::ReLU(nn::ReLUOptions(true)));
    layers->push_back(nn::Dropout(0.3));
  }
  move_to_host_device(*layers);
  return layers;
}

/// Layers on the host, then on the device, then on the host again.
struct Model : nn::Module {
  explicit Model(std::int64_t host_width = 64, int num_device_layers = 2)
      : front(nn::Linear(16, host_width), nn::Tanh(), nn::Linear(host_width, host_width),
              nn::GELU(), nn::Dropout(0.2), nn::Linear(host_width, 32)),
        middle(device_layers(num_device_layers)),
        back(nn::Linear(32, host_width), nn::ReLU(nn::ReLUOptions(true)),
             nn::Linear(host_width, host_width), nn::Sigmoid(), nn::Linear(host_width, 4)) {
    register_module("front", front);
    register_module("middle", middle);
    register_module("back", back);
  }

  at::Tensor forward(at::Tensor x) {
    begin_stage("front");
    x = front->forward(x);
    begin_stage("middle");
    x = middle->forward(x.to(kHostDevice));
    begin_stage("back");
    return back->forward(x.cpu());
  }

  nn::Sequential front;
  nn::Sequential middle;
  nn::Sequential back;
};

at::Tensor input() { return torch::randn({48, 16}); }

Tensors gradients(const nn::Module& model) {
  Tensors all;
  for (const auto& parameter : model.parameters()) all.push_back(parameter.grad().cpu());
  return all;
}

/// Measured peaks of one step, in the order of Plan::devices.
std::vector<std::int64_t> peaks_of(const std::function<at::Tensor()>& loss) {
  const MemoryMeter device(kHostDevice);
  const MemoryMeter host(c10::kCPU);
  loss().backward();
  return {device.measured_peak_bytes(), host.measured_peak_bytes()};
}

std::vector<std::int64_t> predicted_peaks(const Region& region) {
  std::vector<std::int64_t> peaks;
  for (const auto& peak : region.plan().devices) peaks.push_back(peak.predicted_peak_bytes);
  return peaks;
}

std::vector<std::int64_t> plain_peaks(const Region& region) {
  std::vector<std::int64_t> peaks;
  for (const auto& peak : region.plan().devices) peaks.push_back(peak.predicted_plain_peak_bytes);
  return peaks;
}

/// Trains `model` for two steps and returns the peaks of the second.
std::vector<std::int64_t> second_step(Model& model, Region& region, bool preallocate = true) {
  const auto x = input();
  const auto step = [&] {
    if (preallocate) preallocate_gradients(model);
    if (!preallocate) model.zero_grad();
    return peaks_of([&] { return region.run([&] { return model.forward(x); }).pow(2).sum(); });
  };
  step();
  return step();
}

void expect_predicted_peaks(bool preallocate) {
  Model model;
  std::int64_t num_replayed_ops = 0;
  for (const Options& options : every_policy()) {
    Region region(options);
    const auto measured = second_step(model, region, preallocate);
    EXPECT_EQ(measured, predicted_peaks(region)) << region.brief_report();
    EXPECT_TRUE(region.last_step().followed_plan);
    EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops);
    num_replayed_ops += region.last_step().num_replayed_ops;
  }
  EXPECT_GT(num_replayed_ops, 0);
}

TEST_F(TwoDevices, H18PredictedPeaksOfBothAreExactUnderEveryPolicy) {
  expect_predicted_peaks(true);
}

TEST_F(TwoDevices, H18PredictedPeaksOfBothAreExactWithoutPreallocatedGradients) {
  expect_predicted_peaks(false);
}

TEST_F(TwoDevices, H18StepsAreTheSame) {
  expect_same_step([](const Wrap& wrap) {
    Model model;
    for (int step = 0; step < 3; ++step) {
      const auto x = input();
      one(wrap)([&] { return model.forward(x); }).exp().sum().backward();
    }
    return gradients(model);
  });
}

TEST_F(TwoDevices, H18PeakBudgetThatOnlyTheHostMissesHoldsOnBoth) {
  Model model(256);
  Region plain({.policy = "keep_all"});
  const auto plain_peak_bytes = second_step(model, plain);
  const std::int64_t bytes = plain_peak_bytes[1] * 4 / 5;
  ASSERT_LT(plain_peak_bytes[0], bytes);
  Region region({.max_peak_bytes = bytes});
  const auto measured = second_step(model, region);
  EXPECT_TRUE(region.plan().feasible);
  EXPECT_EQ(measured, predicted_peaks(region));
  EXPECT_LE(*std::ranges::max_element(measured), bytes);
  EXPECT_TRUE(region.last_step().followed_plan);
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

TEST_F(TwoDevices, H18PeakBudgetThatBothMissHoldsOnBoth) {
  Model model(64, 6);
  Region plain({.policy = "keep_all"});
  const auto plain_peak_bytes = second_step(model, plain);
  const std::int64_t bytes = *std::ranges::min_element(plain_peak_bytes) * 9 / 10;
  Region region({.max_peak_bytes = bytes});
  const auto measured = second_step(model, region);
  EXPECT_TRUE(region.plan().feasible) << region.brief_report();
  EXPECT_EQ(measured, predicted_peaks(region));
  EXPECT_LE(*std::ranges::max_element(measured), bytes);
}

TEST_F(TwoDevices, H18PeakBudgetThatNoPlanMeetsIsInfeasible) {
  Model model;
  Region region({.max_peak_bytes = 1});
  const auto measured = second_step(model, region);
  EXPECT_EQ(measured, predicted_peaks(region));
  EXPECT_FALSE(region.plan().feasible);
}

TEST_F(TwoDevices, H18OverheadOfBothIsWithinTheBudget) {
  for (const double budget : {0.0, 0.05, 0.2}) {
    Model model;
    Region region({.max_overhead = budget, .cost = plan::CostModel::flops});
    const auto measured = second_step(model, region);
    EXPECT_EQ(measured, predicted_peaks(region)) << region.brief_report();
    EXPECT_LE(region.plan().predicted_overhead_flops, budget);
    const auto plain = plain_peaks(region);
    for (std::size_t d = 0; d < plain.size(); ++d) EXPECT_LE(measured[d], plain[d]);
    EXPECT_LT(measured[0] + measured[1], plain[0] + plain[1]);
  }
}

TEST_F(TwoDevices, H18BudgetInSecondsHoldsOnBoth) {
  Model model;
  Region region({.max_overhead = 0.3});
  const auto measured = second_step(model, region);
  EXPECT_EQ(measured, predicted_peaks(region));
  EXPECT_LE(region.plan().predicted_overhead_seconds, 0.3);
}

/// Ops drawn on tensors of one device, and now and then all goes on on the other. Work never runs
/// on both at once, as what is added up and how much lives at a time would depend on who is first.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : seed_(seed) {
    for (const c10::Device device : {c10::Device(c10::kCPU), kHostDevice}) {
      leaves_.push_back(torch::randn({16, 16}).div_(4).to(device).requires_grad_());
      buffers_.push_back(torch::zeros({16}).to(device));
    }
    leaves_.push_back(torch::randn({24, 16}).requires_grad_());
  }

  /// The step from the beginning, with gradients allocated.
  void reset() {
    torch::manual_seed(static_cast<std::int64_t>(seed_));
    random_.seed(seed_);
    for (auto& leaf : leaves_) leaf.mutable_grad() = torch::zeros_like(leaf);
    for (auto& buffer : buffers_) buffer.zero_();
  }

  at::Tensor forward() {
    Tensors pool{leaves_.back()};
    for (int op = 0; op < kNumOps; ++op) {
      if (op % 4 == 0) begin_stage("stage " + std::to_string(op));
      pool.push_back(next(pool[below(pool.size())], pool[below(pool.size())]));
      if (below(4) == 0) pool = {moved(sum_of(pool))};
    }
    return sum_of(pool);
  }

  [[nodiscard]] Tensors gradients() const {
    Tensors all;
    for (const auto& leaf : leaves_) all.push_back(leaf.grad().cpu().clone());
    return all;
  }

 private:
  static constexpr int kNumOps = 16;

  std::size_t below(std::size_t n) { return random_() % n; }

  static at::Tensor sum_of(const Tensors& pool) {
    at::Tensor sum = pool.front();
    for (std::size_t i = 1; i < pool.size(); ++i) sum = sum + pool[i];
    return sum;
  }

  static at::Tensor moved(const at::Tensor& x) {
    return x.to(x.is_cpu() ? kHostDevice : c10::Device(c10::kCPU));
  }

  at::Tensor next(const at::Tensor& x, const at::Tensor& y) {
    const std::size_t place = x.is_cpu() ? 0 : 1;
    switch (below(7)) {
      case 0:
        return at::matmul(x, leaves_[place]).tanh();
      case 1:
        return x.sin().add_(1);
      case 2:
        return x * y;
      case 3:
        return at::dropout(x, 0.4, true);
      case 4:
        return at::gelu(at::cat({x, y})).slice(0, 0, x.size(0));
      case 5: {
        const at::Tensor sum = (x + buffers_[place]).sigmoid();
        buffers_[place].add_(1);  // what a replay of the sum reads is cloned
        return sum;
      }
      default:
        return x.cos().relu_();
    }
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  Tensors leaves_;  ///< a weight on either device, and the input
  Tensors buffers_;
};

TEST_F(TwoDevices, H18PredictedPeaksOfRandomProgramsAreExact) {
  int num_of_two = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    RandomProgram program(seed);
    program.reset();
    program.forward().pow(2).sum().backward();
    const auto plain = program.gradients();
    for (const Options& options : every_policy()) {
      Region region(options);
      std::vector<std::int64_t> measured;
      for (int step = 0; step < 2; ++step) {
        program.reset();
        measured =
            peaks_of([&] { return region.run([&] { return program.forward(); }).pow(2).sum(); });
        expect_same_bits(plain, program.gradients());
      }
      if (!region.has_plan() || region.plan().devices.empty()) continue;
      ++num_of_two;
      EXPECT_EQ(measured, predicted_peaks(region)) << seed << ", " << region.brief_report();
      EXPECT_TRUE(region.last_step().followed_plan);
    }
  }
  EXPECT_GT(num_of_two, 100);
}

TEST_F(TwoDevices, H18ThePlanNamesBothTheAcceleratorFirst) {
  Model model(256);
  Region region({.policy = "keep_all"});
  second_step(model, region);
  EXPECT_THAT(region.graph().devices, ElementsAre(kHostDevice.str(), "cpu"));
  EXPECT_THAT(region.brief_report(), ::testing::HasSubstr("of plain) on cpu, overhead"));
}

TEST_F(TwoDevices, H18WhatIsMadeOnOneDeviceIsAGraphOfOne) {
  auto layer = nn::Linear(16, 16);
  move_to_host_device(*layer);
  const auto x = input();
  Region region({.policy = "keep_all"});
  region.run([&] { return layer->forward(x.to(kHostDevice)).exp().sin(); }).sum().backward();
  EXPECT_THAT(region.graph().devices, IsEmpty());
  EXPECT_THAT(region.plan().devices, IsEmpty());
}

// As attention on a card gives its seeds on the host. What an op of this device takes of the host
// is next to nothing only beside what many have made.
TEST_F(TwoDevices, H18WhatIsNextToNothingOnTheHostLeavesOffloadingToTheDevice) {
  const auto weight = torch::randn({256}).to(kHostDevice).requires_grad_();
  const auto step = [&](const Wrap& wrap) {
    torch::manual_seed(5);
    weight.mutable_grad() = at::Tensor();
    const auto y = one(wrap)([&] {
      const auto seed = torch::rand({1}).exp();
      auto z = weight * (seed * seed.sin()).to(kHostDevice);
      for (int i = 0; i < 1500; ++i) z = z.sin();
      return z;
    });
    y.sum().backward();
    return Tensors{weight.grad()};
  };
  const auto plain = step([](const auto& body) { return body(); });
  Region profiling({.policy = "keep_all"});
  step([&](const auto& body) { return profiling.run(body); });
  const plan::HostLink link{1e15, 1e15, true};  // no plan hangs on how fast this machine is
  const auto plan = std::make_shared<const plan::Plan>(
      plan::make_plan(profiling.graph(), {.max_overhead = 0.0, .host_link = link}));
  EXPECT_EQ(plan->devices.size(), 2U);
  Region region({.plan = plan});
  for (int i = 0; i < 2; ++i) {
    expect_same_bits(plain, step([&](const auto& body) { return region.run(body); }));
  }
  EXPECT_GT(region.last_step().offloaded_bytes, 0);
  EXPECT_TRUE(region.last_step().followed_plan);
}

}  // namespace
}  // namespace gradrecomp::test
