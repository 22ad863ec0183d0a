// Conformance M1, M2, M3, M9, M10: what is predicted is what happens, to the byte.
#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/plan/simulate.h"
#include "support/live_memory.h"
#include "support/predicted_peaks.h"
#include "support/training.h"
#include "tape/record/recorder.h"

namespace gradrecomp::test {
namespace {

class PredictedMemory : public LiveMemory {};

TEST_F(PredictedMemory, M3AndM9PredictedPeakAndReplaysOfAResNetAreExact) {
  expect_predicted_peaks(models::resnet18(10), torch::randn({2, 3, 32, 32}), true);
}

TEST_F(PredictedMemory, M3PredictedPeakIsExactWithoutPreallocatedGradients) {
  expect_predicted_peaks(models::resnet18(10), torch::randn({2, 3, 32, 32}), false);
}

// A NaN that a kernel makes is not LibTorch's NaN, so the part keeps its call.
TEST_F(PredictedMemory, M3PredictedPeakIsExactWhereNoFormulaFitsAPart) {
  const auto x = torch::full({16, 8}, std::numeric_limits<float>::quiet_NaN()).requires_grad_();
  x.mutable_grad() = torch::zeros_like(x);
  const auto weight = torch::randn({8});
  const auto bias = torch::randn({8});
  Region region({.policy = "keep_all"});
  const auto step = [&] {
    return peak_of([&] {
      return region
          .run([&] {
            const auto held_until_the_end = torch::ones({4096});  // so that forward has the peak
            return torch::layer_norm(x.exp(), {8}, weight, bias);
          })
          .sum();
    });
  };
  step();
  const auto& ops = region.graph().ops;
  EXPECT_TRUE(std::ranges::any_of(ops, [](auto& op) { return op.is_part && !op.by_kernel; }));
  EXPECT_EQ(step(), region.plan().predicted_peak_bytes);
}

TEST_F(PredictedMemory, M3AndM9PredictedPeakAndReplaysOfABertAreExact) {
  const models::BertOptions options{.vocab_size = 50,
                                    .hidden_size = 32,
                                    .num_layers = 4,
                                    .num_heads = 2,
                                    .intermediate_size = 64,
                                    .max_positions = 32};
  expect_predicted_peaks(models::BertModel(options), torch::randint(0, 50, {2, 24}), true);
}

/// Of a step that keeps all.
void expect_no_more_than_plain(const std::function<at::Tensor()>& forward) {
  const auto plain = peak_of(forward);
  Region region({.policy = "keep_all", .unrecorded_bytes = 0});
  const auto step = [&] { return peak_of([&] { return region.run(forward); }); };
  step();
  const auto measured = step();
  EXPECT_EQ(measured, region.plan().predicted_peak_bytes);
  EXPECT_LE(measured, plain);
}

// What autograd has saved of it no backward pass asks for.
TEST_F(PredictedMemory, M3BranchThatTheProgramThrowsAwayIsNotKept) {
  auto weight = torch::randn({32, 256}).requires_grad_();
  weight.mutable_grad() = torch::zeros_like(weight);
  const auto x = torch::randn({64, 32});
  const auto target = torch::randint(256, {64});
  const auto forward = [&] {
    at::Tensor loss = torch::zeros({});
    for (int i = 0; i < 4; ++i) {
      const auto logits = (x + i).mm(weight);
      loss = loss + torch::nll_loss(logits.log_softmax(1), target);
      static_cast<void>(logits.softmax(1).exp().argmax(1).eq(target).sum().item());
    }
    return loss;
  };
  expect_no_more_than_plain(forward);
}

// In inference mode contiguous() is not taken apart, so what it copies shows in no other operator.
TEST_F(PredictedMemory, M3CopiesMadeInInferenceModeAreNotKept) {
  auto weight = leaf_with_gradient({64, 64});
  const auto x = torch::randn({64, 64});
  const auto forward = [&] {
    at::Tensor shift;
    {
      const c10::InferenceMode inference;
      shift = torch::ones({256, 256});
      for (int i = 0; i < 8; ++i) shift = shift.t().contiguous().mul(0.9);
      shift = shift.mean();
    }
    return (x.mm(weight) + shift).sin().sum();
  };
  expect_no_more_than_plain(forward);
}

/// A backward pass that ends with autograd's error while a node waits whose handles are yet to go.
void fail_in_backward(const at::Tensor& x) {
  const auto weight = leaf_with_gradient({24, 24});
  Region region({.policy = "keep_all"});
  const auto y = region.run([&] {
    const auto h = x.mm(weight).tanh();
    auto scale = h.detach().clone();
    const auto first = h * scale;
    const auto second = h.exp() * scale;
    scale.mul_(2);
    return first * second;
  });
  EXPECT_ANY_THROW(y.pow(2).sum().backward());
}

TEST_F(PredictedMemory, M3OfTheFirstStepAfterAFailedBackwardPassIsExact) {
  const auto x = torch::randn({24, 24});
  fail_in_backward(x);
  const auto weight = leaf_with_gradient({24, 24});
  Region region({.max_peak_bytes = 1, .cost = plan::CostModel::flops});
  const auto step = [&] {
    return peak_of([&] {
      const auto y = region.run([&] {
        const auto h = x.mm(weight).tanh();
        return h * h.sin();
      });
      return y.pow(2).sum();
    });
  };
  step();
  EXPECT_EQ(step(), region.plan().predicted_peak_bytes);
}

/// Layers, the last of which goes backward from a gradient that is there beforehand.
struct Layers {
  at::Tensor x = torch::randn({24, 24});
  at::Tensor weight = leaf_with_gradient({24, 24});
  at::Tensor gradient = torch::ones({24, 24});

  [[nodiscard]] at::Tensor forward() const {
    at::Tensor h = x;
    for (int layer = 0; layer < 3; ++layer) h = h.mm(weight).tanh().exp().sin();
    return h;
  }
};

void run_on_another_thread(const std::function<void()>& work) {
  std::thread thread(work);
  thread.join();
}

TEST_F(PredictedMemory, M3OfBackwardPassesOnOtherThreadsIsExact) {
  const Layers layers;
  for (const Options& options : every_policy()) {
    Region region(options);
    const auto step = [&] {
      const MemoryMeter meter(c10::kCPU);
      at::Tensor y = region.run([&] { return layers.forward(); });
      run_on_another_thread([&] { y.backward(layers.gradient, /*retain_graph=*/true); });
      run_on_another_thread([&] { std::exchange(y, {}).backward(layers.gradient); });
      return meter.measured_peak_bytes();
    };
    step();
    EXPECT_EQ(step(), region.plan().predicted_peak_bytes) << region.brief_report();
  }
}

TEST_F(PredictedMemory, M3OfAForwardPassOnAnotherThreadIsExact) {
  const Layers layers;
  for (const Options& options : every_policy()) {
    Region region(options);
    const auto step = [&] {
      const MemoryMeter meter(c10::kCPU);
      at::Tensor y;
      run_on_another_thread([&] { y = region.run([&] { return layers.forward(); }); });
      std::exchange(y, {}).backward(layers.gradient);
      return meter.measured_peak_bytes();
    };
    step();
    EXPECT_EQ(step(), region.plan().predicted_peak_bytes) << region.brief_report();
  }
}

using Losses = std::vector<at::Tensor>;

/// Steps of a region whose losses go backward one by one.
void expect_predicted_passes(const Options& options, const std::function<Losses()>& forward,
                             bool retains_graph) {
  Region region(options);
  for (int step = 0; step < 3; ++step) {
    const MemoryMeter meter(c10::kCPU);
    {
      const Losses losses = region.run(forward);
      for (std::size_t i = 0; i < losses.size(); ++i) {
        const bool is_last = i + 1 == losses.size();
        losses[i].backward({}, /*retain_graph=*/retains_graph && !is_last);
      }
    }
    if (step == 0) continue;
    EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
    EXPECT_EQ(region.plan().predicted_peak_bytes, meter.measured_peak_bytes());
    EXPECT_EQ(region.plan().num_replayed_ops, region.last_step().num_replayed_ops);
  }
}

/// A chain of sines in stages.
at::Tensor staged(at::Tensor x, const std::string& name) {
  for (int i = 0; i < 4; ++i) {
    begin_stage(name + std::to_string(i));
    x = sine_chain(x, 3);
  }
  return x;
}

const std::vector<Options> kSeveral = {
    {.policy = "keep_all"},
    {.policy = "drop_all"},
    {.policy = "every_2"},
    {.policy = "sqrt_n"},
    {.policy = "chen_greedy"},
    {.policy = "selective"},
    {.policy = "whole_block_0.4"},
    {.policy = "revolve_2"},
    {.policy = "nested"},
    {.max_overhead = 0.1, .cost = plan::CostModel::flops},
    {.max_overhead = 1.0, .cost = plan::CostModel::flops},
    {.max_peak_bytes = 1, .cost = plan::CostModel::flops},
    {.max_peak_bytes = 1, .offload = true},
};

TEST_F(PredictedMemory, M3PassesThroughPartsOfAStepArePredicted) {
  const auto x = leaf_with_gradient({64, 16});
  const auto y = leaf_with_gradient({64, 16});
  for (const Options& options : kSeveral) {
    expect_predicted_passes(
        options,
        [&] {
          return Losses{staged(x.exp(), "x").sum(), staged(y.exp(), "y").sum()};
        },
        false);
  }
}

TEST_F(PredictedMemory, M3PassesThroughACommonTrunkArePredicted) {
  const auto x = leaf_with_gradient({64, 16});
  for (const Options& options : kSeveral) {
    expect_predicted_passes(
        options,
        [&] {
          const auto trunk = staged(x.exp(), "trunk");
          return Losses{staged(trunk.tanh(), "one").sum(), trunk.sigmoid().exp().sum()};
        },
        true);
  }
}

/// Runs another backward pass before it goes on.
struct PassInside : torch::autograd::Function<PassInside> {
  static inline std::vector<std::function<void()>> passes;
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            std::int64_t pass) {
    context->saved_data["pass"] = pass;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    passes[context->saved_data["pass"].toInt()]();
    return {gradients[0], at::Tensor()};
  }
};

// More of them than are planned for after each.
TEST_F(PredictedMemory, PassesInsideAPassLeaveItsPlanWhole) {
  constexpr std::int64_t kNumPasses = 6;
  const auto x = leaf_with_gradient({64, 16});
  const auto y = leaf_with_gradient({64, 16});
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    PassInside::passes.clear();
    const auto loss = region.run([&] {
      at::Tensor h = x;
      for (std::int64_t i = 0; i < kNumPasses; ++i) {
        begin_stage(std::to_string(i));
        h = PassInside::apply(sine_chain(h, 3), i);
        PassInside::passes.push_back([other = sine_chain(y, 3).sum()] { other.backward(); });
      }
      return h.sum();
    });
    loss.backward();
  }
  PassInside::passes.clear();
  EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
  EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops);
}

// What only a later pass asks for is not for free.
TEST_F(PredictedMemory, M3BudgetHoldsForAllPassesOfAStep) {
  const auto weight = leaf_with_gradient({16, 16});
  const auto tower = [&] {
    at::Tensor h = torch::randn({64, 16});
    for (int layer = 0; layer < 4; ++layer) h = h.mm(weight);
    return h.sum();
  };
  Region region({.max_overhead = 0, .cost = plan::CostModel::flops});
  for (int step = 0; step < 3; ++step) {
    const auto losses = region.run([&] { return Losses{tower(), tower()}; });
    for (const at::Tensor& loss : losses) loss.backward();
  }
  EXPECT_TRUE(region.last_step().followed_plan) << region.last_step().reason;
  EXPECT_EQ(region.last_step().num_replayed_ops, 0);
}

// Of the sine chain: values of kChainBytes.
constexpr int kChainLength = 6;
constexpr std::int64_t kChainBytes = 4096;

TEST_F(PredictedMemory, M1EveryKeptSubsetOfAChainRetainsItsBytesAndReplaysTheRest) {
  for (int kept = 0; kept < 1 << (kChainLength - 1); ++kept) {
    auto x = torch::randn({kChainBytes / 4}).requires_grad_();
    // Value 0 is the input, value i the output of sine i; the last is not an input.
    auto keep = std::make_shared<tape::Retentions>(kChainLength + 1, tape::Retention::drop);
    int num_kept = 0;
    for (int i = 0; i + 1 < kChainLength; ++i) {
      if (((kept >> i) & 1) == 0) continue;
      (*keep)[i + 1] = tape::Retention::keep;
      ++num_kept;
    }
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
    EXPECT_EQ(tape->counts().replayed_ops, kChainLength - 1 - num_kept) << "kept set " << kept;
  }
}

// Live bytes at the backward of each sine, the last one first, above those before the step.
struct Series {
  std::vector<std::int64_t> first_backward;
  std::vector<std::int64_t> second_backward;
};

Series series_of(Region& region, const at::Tensor& x, bool retain_graph) {
  std::vector<std::int64_t> live;
  const auto start = live_bytes();
  const auto loss = region.run([&] {
    at::Tensor y = x;
    for (int i = 0; i < kChainLength; ++i) {
      begin_stage(std::to_string(i));
      y = y.sin();
      y.register_hook([&live, start](at::Tensor gradient) {
        live.push_back(live_bytes() - start);
        return gradient;
      });
    }
    return y.sum();
  });
  loss.backward({}, retain_graph);
  if (retain_graph) loss.backward();
  const auto half = live.begin() + kChainLength;
  return {{live.begin(), half}, {half, live.end()}};
}

TEST_F(PredictedMemory, M2LiveBytesFallInBackwardAsTheSimulatorSays) {
  const auto x = leaf_with_gradient({1024});
  Region region({.policy = "every_2"});
  series_of(region, x, false);
  const auto live = series_of(region, x, false).first_backward;
  EXPECT_EQ(region.last_step().num_replayed_ops, kChainLength / 2) << "inside the groups";
  std::vector<std::int64_t> simulated;
  plan::simulate(region.graph(), region.plan().keep, simulated);
  // Every moment that was seen is simulated, in that order.
  auto moment = simulated.begin();
  for (const auto bytes : live) {
    moment = std::find(moment, simulated.end(), bytes);
    EXPECT_NE(moment, simulated.end()) << bytes << " bytes are live at no such moment";
  }
  EXPECT_LT(live.back(), live.front());
}

TEST_F(PredictedMemory, M2RetainedGraphHoldsNoReplayedValueBeyondItsBackward) {
  const auto x = leaf_with_gradient({1024});
  Region region({.policy = "drop_all"});
  series_of(region, x, false);
  const auto start = live_bytes();
  const auto plain = series_of(region, x, false).first_backward;
  const auto retained = series_of(region, x, true);
  EXPECT_EQ(region.last_step().num_replayed_ops, 2 * (kChainLength - 1));
  EXPECT_EQ(retained.first_backward.front(), plain.front());
  EXPECT_EQ(retained.second_backward, plain) << "the last backward frees as if it were the only";
  EXPECT_EQ(live_bytes(), start);
}

// resize_() gives a tensor without memory some, after which nothing is left of it as it was.
TEST_F(PredictedMemory, M9ReplaysThroughAStorageThatWasEmptyArePredicted) {
  const auto weight = leaf_with_gradient({64, 64});
  const auto x = torch::randn({32, 64});
  const auto forward = [&] {
    const auto a = x.mm(weight).sin();
    auto filled = torch::empty({0});
    {
      const torch::NoGradGuard no_grad;
      filled.resize_({32, 64});
      filled.copy_(a);
      filled = filled.square();
    }
    return (a * filled).tanh();
  };
  for (const char* policy : {"drop_all", "every_2", "pointwise_only"}) {
    Region region({.policy = policy});
    const auto step = [&] { return peak_of([&] { return region.run(forward).sum(); }); };
    step();
    EXPECT_EQ(step(), region.plan().predicted_peak_bytes);
    EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops) << policy;
  }
}

/// Live bytes beyond those before a backward pass through `y` that retains the graph.
std::int64_t left_by_pass_through(const at::Tensor& y) {
  const auto before = live_bytes();
  try {
    y.sum().backward({}, /*retain_graph=*/true);
  } catch (const std::runtime_error&) {
    // of a hook
  }
  return live_bytes() - before;
}

TEST_F(PredictedMemory, M2NothingReplayedStaysAfterAPassThroughAStepThatWasGivenUp) {
  const auto x = leaf_with_gradient({1024});
  Region region({.policy = "drop_all"});
  at::Tensor y;
  const auto fails = [&]() -> at::Tensor {
    y = sine_chain(x);
    throw std::runtime_error("the body fails");
  };
  EXPECT_THROW(region.run(fails), std::runtime_error);
  EXPECT_EQ(left_by_pass_through(y), 0);
}

TEST_F(PredictedMemory, M2NothingReplayedStaysAfterAPassThatFailed) {
  const auto x = leaf_with_gradient({1024});
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    const auto y = region.run([&] { return sine_chain(x); });
    const auto hook = x.register_hook([](const at::Tensor&) { throw std::runtime_error("fails"); });
    EXPECT_EQ(left_by_pass_through(y), 0);
    x.remove_hook(hook);
    const auto gradient = x.grad().clone();
    y.sum().backward();
    EXPECT_FALSE(torch::equal(gradient, x.grad())) << "the program may try once more";
  }
}

TEST_F(PredictedMemory, M10FirstStepStaysFarBelowThePlainPeak) {
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
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
  EXPECT_LT(second, plain);
  EXPECT_LT(first, plain);
  Region by_stages({.policy = "every_1", .window_bytes = std::int64_t{64} << 20});
  EXPECT_EQ(peak_of([&] { return by_stages.run(forward).sum(); }), second)
      << "its windows end with stages, as the plan keeps every stage's boundary";
}

}  // namespace
}  // namespace gradrecomp::test
