// Conformance P1, P3, P5 in real steps: plans fit their op sequence, and planning leaves no trace.
#include <gmock/gmock.h>

#include "support/messages.h"
#include "support/programs.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;

TEST(Robustness, P1SelectionIsHonouredByRealSteps) {
  const auto x = torch::randn({64}).requires_grad_();
  const auto body = [&] { return x.exp().sin().tanh().cos().sum(); };
  for (const bool kept : {true, false}) {
    const plan::Selection selection = kept ? plan::Selection{.keep_ops = {"aten::exp"}}
                                           : plan::Selection{.drop_ops = {"aten::exp"}};
    Region region({.policy = kept ? "drop_all" : "keep_all", .selection = selection});
    region.run(body).backward();
    for (const auto& op : region.graph().ops) {
      EXPECT_TRUE(op.name != "aten::exp" || region.plan().keep[op.outputs[0]] == kept);
    }
    x.mutable_grad() = at::Tensor();
    region.run(body).backward();
    x.mutable_grad() = at::Tensor();
    EXPECT_EQ(region.last_step().num_replayed_ops, region.plan().num_replayed_ops);
    EXPECT_GT(region.last_step().num_replayed_ops, 0);
  }
}

TEST(Robustness, P1ContradictionIsRefusedWhenThePlanIsMade) {
  const auto x = torch::randn({4}).requires_grad_();
  Region region({.selection = {.keep_ops = {"aten::exp"}, .drop_ops = {"aten::e*"}}});
  const auto y = region.run([&] { return x.exp().sin().sum(); });
  EXPECT_THAT(message_of([&] { y.backward(); }), HasSubstr("aten::e"));
  EXPECT_FALSE(region.has_plan());
}

TEST(Robustness, P3ChangedShapesPlanOnceAndThenAlternateWithoutReplanning) {
  nn::Sequential model(nn::Linear(4, 4), nn::Tanh(), nn::Linear(4, 4));
  Region region({.policy = "drop_all"});
  int num_profiled = 0;
  for (int step = 0; step < 12; ++step) {
    const auto x = torch::randn({step % 3 + 1, 4});
    model->zero_grad();
    region.run([&] { return model->forward(x).sin(); }).sum().backward();
    num_profiled += region.last_step().profiled;
    if (step >= 3) {
      EXPECT_TRUE(region.last_step().followed_plan) << "step " << step;
    }
  }
  EXPECT_EQ(num_profiled, 3);
  EXPECT_EQ(region.num_plans(), 3);
}

TEST(Robustness, P3PlanNotFollowedForLongestIsForgotten) {
  nn::Sequential model(nn::Linear(4, 4), nn::Tanh());
  Region region({.policy = "drop_all", .max_plans = 2});
  const auto profiled = [&](std::int64_t batch) {
    const auto x = torch::randn({batch, 4});
    model->zero_grad();
    region.run([&] { return model->forward(x).sin(); }).sum().backward();
    return region.last_step().profiled;
  };
  EXPECT_TRUE(profiled(1) && profiled(2));
  EXPECT_FALSE(profiled(1));  // from here on 2 is the one not followed for longest
  EXPECT_TRUE(profiled(3));
  EXPECT_FALSE(profiled(1));
  EXPECT_FALSE(profiled(2));  // planned again, by what its profile measured
  EXPECT_TRUE(region.last_step().followed_plan);
  EXPECT_EQ(region.num_plans(), 2);
}

TEST(Robustness, P3EndlesslyManyShapesKeepNoMorePlansThanAllowed) {
  auto x = torch::randn({1, 4}).requires_grad_();
  Region region;
  for (std::int64_t size = 1; size <= 100; ++size) {
    region.run([&] { return x.expand({size, 4}).exp().sin().sum(); }).backward();
    EXPECT_EQ(region.num_plans(), std::min(size, region.options().max_plans));
  }
}

TEST(Robustness, P3AnyNumberOfPlansMayBeAllowed) {
  const auto x = torch::randn({1, 4}).requires_grad_();
  const std::int64_t power = std::int64_t{1} << 60;
  for (const std::int64_t most : {power, power + 1, std::numeric_limits<std::int64_t>::max()}) {
    Region region({.policy = "drop_all", .max_plans = most});
    for (std::int64_t size = 1; size <= 20; ++size) {
      region.run([&] { return x.expand({size, 4}).exp().sin().sum(); }).backward();
      EXPECT_EQ(region.num_plans(), size);
    }
  }
}

TEST(Robustness, P3AnotherDtypeIsAnotherPlan) {
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 6; ++step) {
    const auto type = step % 2 == 0 ? torch::kFloat : torch::kDouble;
    const auto x = torch::randn({3}, type).requires_grad_();
    const auto body = [&] { return x.exp().sin().sum(); };
    const auto plain = torch::autograd::grad({body()}, {x})[0];
    EXPECT_TRUE(same_bits(plain, torch::autograd::grad({region.run(body)}, {x})[0]));
    EXPECT_EQ(region.last_step().followed_plan, step >= 2) << "step " << step;
  }
  EXPECT_EQ(region.num_plans(), 2);
}

TEST(Robustness, P3SequenceThatChangesMidwayFallsBackAndIsPlannedNext) {
  auto x = torch::randn({4}).requires_grad_();
  Region region({.policy = "drop_all"});
  const auto step = [&](bool longer) {
    const auto body = [&] {
      auto y = x.exp().sin();
      return (longer ? y.cos().tanh() : y.sigmoid()).sum();
    };
    body().backward();
    const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
    region.run(body).backward();
    EXPECT_TRUE(same_bits(plain, std::exchange(x.mutable_grad(), at::Tensor())));
  };
  step(false);
  step(true);
  EXPECT_FALSE(region.last_step().followed_plan);
  EXPECT_FALSE(region.last_step().profiled);
  step(true);
  EXPECT_TRUE(region.last_step().profiled);
  step(false);
  EXPECT_TRUE(region.last_step().followed_plan);
  step(true);
  EXPECT_TRUE(region.last_step().followed_plan);
  EXPECT_EQ(region.num_plans(), 2);
}

TEST(Robustness, P5ProfilingChangesNoParameterBufferRandomStateOrGradient) {
  const auto make = [] {
    nn::Sequential model(nn::Linear(4, 4), nn::BatchNorm1d(4), nn::Dropout(0.5), nn::Linear(4, 2));
    return sequential(model, {6, 4});
  };
  // One byte per window: every op is verified by itself, and what it made is then a boundary.
  std::int64_t num_replayed_ops = 0;
  for (const std::int64_t window_bytes : {std::int64_t{1}, std::int64_t{1} << 30}) {
    const Options options{.policy = "drop_all", .window_bytes = window_bytes};
    num_replayed_ops += expect_same_training(make, {options}, 1);
  }
  EXPECT_GT(num_replayed_ops, 0);
}

TEST(Robustness, BackwardInsideTheRegionStaysUnderTheSafePlan) {
  auto x = torch::randn({4}).requires_grad_();
  const auto body = [&] {
    auto y = x.exp().sin();
    auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    return (y * slope).sum();
  };
  body().backward();
  const auto plain = std::exchange(x.mutable_grad(), at::Tensor());
  const WarningLog log;
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 2; ++step) {
    region.run(body).backward();
    EXPECT_TRUE(same_bits(plain, std::exchange(x.mutable_grad(), at::Tensor()))) << "step " << step;
  }
  EXPECT_FALSE(region.has_plan());
  EXPECT_THAT(log.text(), HasSubstr("cannot plan this op sequence"));
}

}  // namespace
}  // namespace gradrecomp::test
