// Kept values that are in host memory between forward and backward.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <random>
#include <vector>

#include "gradrecomp/models/resnet.h"
#include "gradrecomp/plan/predict.h"
#include "gradrecomp/region.h"
#include "region/away/away_test.h"
#include "support/plans.h"
#include "support/programs.h"
#include "support/training.h"
#include "tape/host_memory/host_pool.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

/// Keeps some values, sends some of them away, at any moment that a plan can name.
plan::Plan random_offloads(const plan::Graph& graph, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<plan::Index>(random() % n); };
  plan::Plan plan = all_away(graph);
  plan.offloads.clear();
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    plan.keep[v] = random() % 4 == 0 ? 0 : 1;
    const plan::Value& value = graph.values[v];
    if (plan.keep[v] == 0 || !may_leave(value) || random() % 3 == 0) continue;
    const auto num_later_ops = graph.ops.size() - static_cast<std::size_t>(value.producer);
    plan.offloads.push_back({.value = static_cast<plan::Index>(v),
                             .leaves_after = value.producer + below(num_later_ops),
                             .returns_at = below(graph.values.size() + 1) - 1});
  }
  return plan;
}

class Offload : public AwayTest {
 protected:
  void expect_exact(const plan::Plan& plan) {
    expect_exact_bytes(plan, Forms::exact);
    expect_same_bits(gradients_, chain_.gradients());
  }
};

TEST_F(Offload, AllAwayIsExactInBitsAndBytesAndReplaysNothing) {
  const plan::Plan plan = all_away(graph_);
  ASSERT_GT(plan.offloads.size(), 30U);
  expect_exact(plan);
  const plan::Plan predicted = plan::predict(graph_, plan);
  EXPECT_EQ(predicted.num_replayed_ops, 0);
  EXPECT_LT(predicted.predicted_peak_bytes, predicted.predicted_plain_peak_bytes / 3);
}

TEST_F(Offload, AnyPlanIsExactInBitsBytesAndReplays) {
  std::mt19937 random(1);
  std::int64_t num_offloads = 0;
  for (int i = 0; i < 40; ++i) {
    const plan::Plan plan = random_offloads(graph_, random);
    num_offloads += static_cast<std::int64_t>(plan.offloads.size());
    expect_exact(plan);
    if (HasFailure()) FAIL() << "plan " << i;
  }
  EXPECT_GT(num_offloads, 400);
}

TEST_F(Offload, MemoryOfTheHostIsUsedAgain) {
  Region region({.plan = shared(all_away(graph_))});
  chain_.step(region);
  chain_.step(region);
  const std::size_t num_blocks = tape::HostPool::of_process().num_blocks();
  EXPECT_GT(num_blocks, 0U);
  for (int step = 0; step < 5; ++step) chain_.step(region);
  EXPECT_EQ(tape::HostPool::of_process().num_blocks(), num_blocks);
  tape::HostPool::of_process().trim();
  EXPECT_EQ(tape::HostPool::of_process().num_blocks(), 0U);
}

TEST_F(Offload, PlannedByABudgetOfBytesNeedsNoReplays) {
  const std::int64_t bytes = plan::predict(graph_, all_away(graph_)).predicted_peak_bytes * 2;
  Region region({.max_peak_bytes = bytes, .offload = true});
  chain_.step(region);
  EXPECT_EQ(chain_.step(region), region.plan().predicted_peak_bytes);
  EXPECT_TRUE(region.plan().feasible);
  EXPECT_GT(region.last_step().offloaded_bytes, 0);
  EXPECT_THAT(region.brief_report(), HasSubstr("to host memory and back"));
  expect_same_bits(gradients_, chain_.gradients());
}

TEST_F(Offload, WithoutTheOptionNothingLeaves) {
  Region region({.max_peak_bytes = 1});
  chain_.step(region);
  chain_.step(region);
  EXPECT_TRUE(region.plan().offloads.empty());
  EXPECT_EQ(region.last_step().offloaded_bytes, 0);
}

/// A step of `forward` in a region that sends all away, beside the plain one.
void expect_same_with_all_away(const std::function<at::Tensor(const at::Tensor&)>& forward,
                               const std::function<void(at::Tensor& x, at::Tensor& y)>& backward) {
  const auto step = [&](const std::function<at::Tensor(const at::Tensor&)>& run) {
    torch::manual_seed(3);
    at::Tensor x = torch::randn({6, 8}).requires_grad_();
    at::Tensor y = run(x);
    backward(x, y);
    return std::vector<at::Tensor>{x.grad(), y.detach()};
  };
  const auto plain = step(forward);
  Region maker({.policy = "keep_all"});
  step([&](const at::Tensor& x) { return maker.run([&] { return forward(x); }); });
  Region region({.plan = shared(all_away(maker.graph()))});
  for (int i = 0; i < 3; ++i) {
    expect_same_bits(
        plain, step([&](const at::Tensor& x) { return region.run([&] { return forward(x); }); }));
  }
  EXPECT_GT(region.last_step().offloaded_bytes, 0);
}

TEST_F(Offload, HonoursViewsStridesAndSlices) {
  expect_same_with_all_away(
      [](const at::Tensor& x) {
        const at::Tensor y = x.exp();
        const at::Tensor across = y.t().matmul(y).narrow(1, 2, 5).t();
        return (across * across.select(0, 1).expand({5, 8})).sum();
      },
      [](at::Tensor&, at::Tensor& y) { y.backward(); });
}

TEST_F(Offload, RetainedGraphGoesBackwardTwice) {
  expect_same_with_all_away([](const at::Tensor& x) { return x.exp().tanh().pow(3).sum(); },
                            [](at::Tensor&, at::Tensor& y) {
                              y.backward({}, /*retain_graph=*/true);
                              y.backward();
                            });
}

TEST_F(Offload, SecondDerivativesAreTheSame) {
  expect_same_with_all_away([](const at::Tensor& x) { return x.exp().tanh().pow(3).sum(); },
                            [](at::Tensor& x, at::Tensor& y) {
                              const auto first = torch::autograd::grad(
                                  {y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true);
                              first[0].pow(2).sum().backward();
                            });
}

// What the program holds it may still write over, unless autograd has saved it.
TEST_F(Offload, ValueTheProgramHoldsIsItsOwn) {
  at::Tensor held;
  expect_same_with_all_away(
      [&](const at::Tensor& x) {
        held = x.exp();
        return held.tanh().pow(2).sum();
      },
      [](at::Tensor&, at::Tensor& y) { y.backward(); });
  const at::Tensor x = torch::ones({6, 8}).requires_grad_();
  const auto forward = [&] {
    held = x.exp();  // saves its result
    return held.tanh().sum();
  };
  Region maker({.policy = "keep_all"});
  maker.run(forward).backward();
  Region region({.plan = shared(all_away(maker.graph()))});
  region.run(forward).backward();
  const at::Tensor y = region.run(forward);
  {
    const torch::NoGradGuard no_grad;
    held.zero_();
  }
  EXPECT_THROW(y.backward(), c10::Error);
}

// The plan of another sequence has sent a value away that this one writes over.
TEST_F(Offload, ValueWrittenOverByAStepThatLeavesItsPlanIsTheNewOne) {
  const at::Tensor x = torch::randn({6, 8}).requires_grad_();
  bool in_place = false;
  const auto forward = [&] {
    at::Tensor y = x * 2;
    const at::Tensor z = y.sin();
    y = in_place ? y.add_(1) : y + 1;
    return (y * y * z).sum();
  };
  Region maker({.policy = "keep_all"});
  maker.run(forward).backward();
  plan::Plan plan = all_away(maker.graph());
  Region region({.plan = shared(plan)});
  region.run(forward).backward();
  in_place = true;
  const auto step = [&](const std::function<at::Tensor()>& run) -> std::string {
    x.mutable_grad() = at::Tensor();
    try {
      run().backward();
    } catch (const std::exception& error) {
      return "refused";
    }
    return "";
  };
  const std::string plain = step(forward);
  const at::Tensor expected = x.grad();
  EXPECT_EQ(step([&] { return region.run(forward); }), plain);
  EXPECT_EQ(x.grad().defined(), expected.defined());
  if (expected.defined()) {
    EXPECT_TRUE(same_bits(x.grad(), expected));
  }
}

TEST_F(Offload, ResNetUnderRandomPlansIsExact) {
  torch::manual_seed(1);
  auto model = models::resnet18(10);
  Tensors parameters;
  for (auto& parameter : model->parameters()) {
    parameter.mutable_grad() = torch::zeros_like(parameter);
    parameters.push_back(parameter);
  }
  const at::Tensor images = torch::randn({2, 3, 32, 32});
  const auto step = [&](Region& region) {
    for (auto& parameter : parameters) parameter.mutable_grad().zero_();
    const MemoryMeter meter(c10::kCPU);
    region.run([&] { return model->forward(images); }).pow(2).sum().backward();
    return meter.measured_peak_bytes();
  };
  Region maker({.policy = "keep_all", .substitutes = false});
  step(maker);
  Tensors expected;
  for (const auto& parameter : parameters) expected.push_back(parameter.grad().clone());
  std::mt19937 random(2);
  for (int i = 0; i < 4; ++i) {
    Region region({.plan = shared(random_offloads(maker.graph(), random)), .substitutes = false});
    step(region);
    EXPECT_EQ(step(region), region.plan().predicted_peak_bytes);
    EXPECT_GT(region.last_step().offloaded_bytes, 0);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      ASSERT_TRUE(same_bits(expected[p], parameters[p].grad())) << "parameter " << p;
    }
  }
}

// A step that ends early meets demands at which values come back that it never made.
TEST_F(Offload, OfWhatAStepThatEndsEarlyNeverMakesIsPassedOver) {
  const auto x = torch::randn({64}).requires_grad_();
  const auto step = [&](Region& region, bool exits) {
    const auto y = region.run([&] {
      const auto first = x.exp();
      return exits ? first : first.sin().tanh().cos().exp();
    });
    y.sum().backward();
    return std::exchange(x.mutable_grad(), at::Tensor());
  };
  Region plain({.policy = "keep_all"});
  const auto all = step(plain, false);
  plan::Plan plan = all_away(plain.graph());
  const auto first = plan.offloads.front().value;
  for (plan::Offload& offload : plan.offloads) offload.returns_at = first;
  Region region({.plan = shared(plan)});
  for (const bool exits : {false, false, true, false}) {
    const auto gradient = step(region, exits);
    EXPECT_TRUE(same_bits(gradient, exits ? x.exp().detach() : all));
  }
}

}  // namespace
}  // namespace gradrecomp::test
