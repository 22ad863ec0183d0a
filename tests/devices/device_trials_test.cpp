// Plans for a budget in seconds are tried on a device, too.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <chrono>
#include <thread>

#include "devices/on_device.h"
#include "gradrecomp/region.h"
#include "support/host_device/host_device.h"
#include "support/own_operator.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

constexpr int kNumTimed = 3;

// exp() that takes long where a backward pass calls it, which no profile shows.
at::Tensor slow_when_replayed(const at::Tensor& x) {
  if (torch::autograd::get_current_graph_task_id() >= 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  return x.exp();
}

TORCH_LIBRARY_FRAGMENT(gradrecomp_test, library) {
  library.def("slow_when_replayed(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(gradrecomp_test, CompositeExplicitAutograd, library) {
  library.impl("slow_when_replayed", slow_when_replayed);
}

class DeviceTrials : public ::testing::Test {
 protected:
  /// Takes a step; how many ops it made again.
  std::int64_t step(Region& region) {
    const auto y = region.run([&] {
      at::Tensor h = weight_;
      for (int i = 0; i < 4; ++i) h = OwnOperator::apply(h * 0.5, "slow_when_replayed").sin();
      return h;
    });
    y.sum().backward();
    return region.last_step().num_replayed_ops;
  }

  /// Takes steps up to the first that follows a plan; how many ops that made again.
  std::int64_t profile(Region& region) {
    std::int64_t num_replayed = 0;
    do {
      num_replayed = step(region);
    } while (!region.last_step().followed_plan);
    return num_replayed;
  }

  const at::Tensor weight_ = on_device(torch::randn({64, 64})).requires_grad_();
};

TEST_F(DeviceTrials, TimeTheFirstStepsThatFollowAPlan) {
  Region region({.max_overhead = 0.5, .unrecorded_bytes = 0});
  profile(region);
  for (int i = 1; i < kNumTimed; ++i) {
    EXPECT_TRUE(region.last_step().on_trial) << i;
    step(region);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(region.last_step().on_trial) << i;
    EXPECT_TRUE(region.last_step().followed_plan) << i;
    step(region);
  }
}

TEST_F(DeviceTrials, MakeAPlanAnewWhoseReplaysTakeMoreThanItPromised) {
  Region region({.max_overhead = 0.5, .unrecorded_bytes = 0});
  const std::int64_t num_replayed = profile(region);
  for (int i = 1; i < kNumTimed; ++i) EXPECT_EQ(step(region), num_replayed);
  EXPECT_LT(step(region), num_replayed);
}

// What recording costs is not seen there, nor that an unrecorded step was another.
TEST_F(DeviceTrials, LeaveStepsRecordedWhereAPlanSavesNothing) {
  Region region({.max_overhead = 0});
  profile(region);
  for (int i = 0; i < kNumTimed + 3; ++i) {
    step(region);
    EXPECT_GT(region.last_step().num_ops, 0) << i;
  }
}

TEST_F(DeviceTrials, UnderKeepAllStepsGoUnrecorded) {
  Region region({.policy = "keep_all"});
  profile(region);
  for (int i = 0; i < kNumTimed; ++i) step(region);
  EXPECT_EQ(region.last_step().num_ops, 0);
}

TEST_F(DeviceTrials, AreNotHeldForBudgetsInFlops) {
  Region region({.max_overhead = 0.5, .cost = plan::CostModel::flops, .unrecorded_bytes = 0});
  const std::int64_t num_replayed = profile(region);
  for (int i = 0; i < kNumTimed + 1; ++i) {
    EXPECT_FALSE(region.last_step().on_trial) << i;
    EXPECT_EQ(step(region), num_replayed);
  }
}

TEST_F(DeviceTrials, AreHeldWhereValuesMayLeaveForTheHost) {
  Region region({.max_overhead = 0.5, .offload = true, .unrecorded_bytes = 0});
  const std::int64_t num_replayed = profile(region);
  EXPECT_TRUE(region.last_step().on_trial);
  for (int i = 0; i < kNumTimed; ++i) step(region);
  EXPECT_FALSE(region.last_step().on_trial);
  EXPECT_LT(region.last_step().num_replayed_ops, num_replayed);
}

}  // namespace
}  // namespace gradrecomp::test
