// Steps of small ops, of which recording costs more than a budget in seconds allows.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <vector>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "region/sequences/plan_trial.h"

namespace gradrecomp::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kMostTrialSteps = PlanTrial::kNumFirst + 2 * PlanTrial::kMostPairs;

/// Few values and many small ops: recording takes a good part of a step, on any machine.
struct SmallOps {
  at::Tensor weights = torch::linspace(-1, 1, 64).view({8, 8}).requires_grad_();
  at::Tensor input = torch::linspace(0, 2, 8).view({1, 8});

  at::Tensor loss() const {
    auto x = input;
    for (int i = 0; i < 40; ++i) x = torch::tanh(x.mm(weights)).mul(1.5).sigmoid();
    return torch::dropout(x, 0.5, true).sum();
  }
  /// Takes a step, in `region` unless that is null, and returns the gradient.
  at::Tensor step(Region* region) const {
    weights.mutable_grad() = at::Tensor();
    (region != nullptr ? region->run([&] { return loss(); }) : loss()).backward();
    return weights.grad();
  }
};

/// Takes steps until the plan stays.
void end_trial(const SmallOps& ops, Region& region) {
  for (int step = 0; step <= kMostTrialSteps; ++step) ops.step(&region);
  ASSERT_FALSE(region.last_step().on_trial);
}

bool was_recorded(const Region& region) { return region.last_step().num_ops > 0; }

TEST(UnrecordedSteps, KeepAllIsRecordedFourTimesAndThenOnceIn32) {
  const SmallOps ops;
  Region region({.policy = "keep_all"});
  for (int step = 0; step < 4 + 31; ++step) {
    ops.step(&region);
    EXPECT_EQ(was_recorded(region), step < 4) << "step " << step;
  }
  EXPECT_THAT(region.last_step().reason, HasSubstr("its policy keeps all"));
  ops.step(&region);
  EXPECT_TRUE(region.last_step().followed_plan);
  ops.step(&region);
  EXPECT_FALSE(was_recorded(region));
}

TEST(UnrecordedSteps, ComeWhereRecordingAloneBreaksTheBudget) {
  const SmallOps ops;
  Region region({.max_overhead = 0});
  end_trial(ops, region);
  ops.step(&region);
  EXPECT_FALSE(was_recorded(region));
  EXPECT_FALSE(region.last_step().followed_plan);
  EXPECT_THAT(region.last_step().reason, HasSubstr("too much of the budget"));
  EXPECT_EQ(region.plan().num_replayed_ops, 0);
  EXPECT_THAT(region.brief_report(), AllOf(StartsWith("keep_all"), HasSubstr("recording costs")));
}

TEST(UnrecordedSteps, ComeWhereRecordingTakesTheMemoryThatItsPlanSaves) {
  const SmallOps ops;
  Region region({.max_overhead = 10});
  ops.step(&region);
  EXPECT_GT(region.last_step().tape_bytes, 0);
  end_trial(ops, region);
  ops.step(&region);
  EXPECT_FALSE(was_recorded(region));
  EXPECT_EQ(region.last_step().tape_bytes, 0);
  EXPECT_THAT(region.last_step().reason, HasSubstr("or of memory"));
}

TEST(UnrecordedSteps, HaveThePeakThatTheirPlanPredicts) {
  const SmallOps ops;
  Region region({.max_overhead = 0});
  end_trial(ops, region);
  ops.weights.mutable_grad() = at::Tensor();
  const MemoryMeter meter(c10::kCPU);
  auto loss = region.run([&] { return ops.loss(); });
  loss.backward();
  EXPECT_EQ(meter.measured_peak_bytes(), region.plan().predicted_peak_bytes);
}

TEST(UnrecordedSteps, GiveTheSameBitsAsPlainOnes) {
  const SmallOps ops;
  for (const Options& options : {Options{.max_overhead = 0}, Options{.policy = "keep_all"},
                                 Options{.max_overhead = 0.2}, Options{}}) {
    Region region(options);
    for (int step = 0; step < 50; ++step) {
      torch::manual_seed(step);
      const auto plain = ops.step(nullptr);
      const auto drawn = torch::rand({1});
      torch::manual_seed(step);
      EXPECT_TRUE(torch::equal(ops.step(&region), plain)) << "step " << step;
      EXPECT_TRUE(torch::equal(torch::rand({1}), drawn)) << "step " << step;
    }
  }
}

TEST(UnrecordedSteps, NeverComeWhereNoBudgetIsInSeconds) {
  const SmallOps ops;
  for (const Options& options :
       {Options{.max_overhead = 0, .cost = plan::CostModel::flops},
        Options{.max_peak_bytes = 1 << 20}, Options{.policy = "drop_all"},
        Options{.policy = "keep_all", .selection = {.drop_ops = {"aten::tanh"}}},
        Options{.policy = "keep_all", .unrecorded_bytes = 0}}) {
    Region region(options);
    for (int step = 0; step < 20; ++step) {
      ops.step(&region);
      EXPECT_EQ(region.last_step().followed_plan, step > 0) << "step " << step;
    }
  }
}

TEST(UnrecordedSteps, NeverComeWhereAPlanSavesMoreThanTheyMayHold) {
  const SmallOps ops;
  Region region({.max_overhead = 1, .unrecorded_bytes = 1});
  for (int step = 0; step < 20; ++step) {
    ops.step(&region);
    EXPECT_EQ(region.last_step().followed_plan, step > 0) << "step " << step;
  }
  EXPECT_LT(region.plan().predicted_peak_bytes, region.plan().predicted_plain_peak_bytes);
}

TEST(UnrecordedSteps, EndWhenAStepHoldsFarMore) {
  SmallOps ops;
  Region region({.max_overhead = 0});
  end_trial(ops, region);
  ops.step(&region);
  ASSERT_FALSE(was_recorded(region));
  ops.input = torch::linspace(0, 2, 8 * 1000).view({1000, 8});
  ops.step(&region);
  EXPECT_FALSE(was_recorded(region));  // it was over before it was known
  ops.step(&region);
  EXPECT_TRUE(was_recorded(region));
}

TEST(UnrecordedSteps, EndWhenTheOneIn32HasAnotherSequence) {
  SmallOps ops;
  Region region({.max_overhead = 0});
  end_trial(ops, region);
  for (int step = 0; was_recorded(region) && step < 2; ++step) ops.step(&region);
  ASSERT_FALSE(was_recorded(region));
  ops.input = torch::linspace(0, 2, 8 * 2).view({2, 8});
  int num_unrecorded = 0;
  for (; !was_recorded(region) && num_unrecorded < 40; ++num_unrecorded) ops.step(&region);
  EXPECT_LE(num_unrecorded, 32);
  for (int step = 0; step < 3; ++step) {
    ops.step(&region);
    EXPECT_TRUE(was_recorded(region)) << "step " << step;
  }
}

TEST(UnrecordedSteps, CoverWhatTheyContain) {
  const SmallOps ops;
  Region outer({.policy = "keep_all"});
  Region inner({.policy = "drop_all"});
  for (int step = 0; step < 10; ++step) {
    ops.weights.mutable_grad() = at::Tensor();
    auto open = outer.open();
    begin_stage("first");
    auto loss = inner.run([&] { return ops.weights.exp().sum(); });
    open.close();
    loss.backward();
    EXPECT_TRUE(torch::equal(ops.weights.grad(), ops.weights.detach().exp()));
    EXPECT_THAT(inner.last_step().reason, HasSubstr("covers it"));
  }
}

TEST(UnrecordedSteps, GivenUpOnesLeaveTheRegionUsable) {
  const SmallOps ops;
  Region region({.policy = "keep_all"});
  for (int step = 0; step < 8; ++step) ops.step(&region);
  ASSERT_FALSE(was_recorded(region));
  EXPECT_ANY_THROW(region.run([&]() -> at::Tensor { throw std::runtime_error("stop"); }));
  EXPECT_THAT(region.last_step().reason, HasSubstr("given up"));
  torch::manual_seed(7);
  const auto plain = ops.step(nullptr);
  torch::manual_seed(7);
  EXPECT_TRUE(torch::equal(ops.step(&region), plain));
}

}  // namespace
}  // namespace gradrecomp::test
