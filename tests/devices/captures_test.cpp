// Work that is captured into a graph.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <tuple>
#include <utility>

#include "devices/dropping_steps.h"
#include "devices/on_device.h"
#include "gradrecomp/device/capture.h"
#include "gradrecomp/region.h"
#include "support/plans.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

constinit std::atomic<bool> captures{false};

/// While it lives, the device says that its work is captured into a graph.
class Capture {
 public:
  Capture() {
    device::register_capture_query([] { return captures.load(); });
    captures = true;
  }
  ~Capture() { captures = false; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
};

at::Tensor with_dropout(const at::Tensor& x) {
  torch::manual_seed(3);
  return torch::dropout(x.exp(), 0.5, true).sin().tanh();
}

TEST(Captures, NothingIsProfiledOrVerified) {
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Steps steps(with_dropout);
  const auto expected = steps.plain(x);
  {
    const Capture capture;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x)));
    EXPECT_FALSE(steps.region.last_step().profiled);
    EXPECT_EQ(steps.region.last_step().num_replayed_ops, 0);
  }
  EXPECT_EQ(steps.region.num_plans(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x)));
  EXPECT_EQ(steps.region.num_plans(), 1);
}

// A generator has no offset to go back to there, so what is drawn is kept.
TEST(Captures, PlansAreFollowedAndWhatIsDrawnIsKept) {
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Steps steps(with_dropout);
  const auto expected = steps.plain(x);
  for (int i = 0; i < 2; ++i) steps.step(x);
  const auto usually = steps.region.last_step();
  ASSERT_TRUE(usually.followed_plan);
  const Capture capture;
  EXPECT_TRUE(same_bits(expected, steps.step(x)));
  EXPECT_TRUE(steps.region.last_step().followed_plan);
  EXPECT_GT(steps.region.last_step().num_replayed_ops, 0);
  EXPECT_LT(steps.region.last_step().num_replayed_ops, usually.num_replayed_ops);
}

// The mask is packed there as elsewhere, or the step's values would differ from its plan's.
TEST(Captures, PlansAreFollowedThroughPackedMasks) {
  const auto x = torch::randn({64}).requires_grad_();
  Steps steps([](const at::Tensor& input) {
    torch::manual_seed(3);
    return std::get<0>(at::native_dropout(input.exp(), 0.5, true)).sin().tanh();
  });
  const auto expected = steps.plain(x);
  for (int i = 0; i < 2; ++i) steps.step(x);
  ASSERT_TRUE(steps.region.last_step().followed_plan);
  const Capture capture;
  EXPECT_TRUE(same_bits(expected, steps.step(x)));
  EXPECT_TRUE(steps.region.last_step().followed_plan) << steps.region.last_step().reason;
  EXPECT_GT(steps.region.last_step().num_replayed_ops, 0);
}

TEST(Captures, NothingGoesToHostMemory) {
  const auto x = on_device(torch::randn({64})).requires_grad_();
  Region first({.policy = "keep_all"});
  const auto step = [&](Region& region) {
    region.run([&] { return x.exp().sin().tanh(); }).sum().backward();
    return std::exchange(x.mutable_grad(), at::Tensor());
  };
  const auto expected = step(first);
  Region region({.plan = shared(all_away(first.graph()))});
  step(region);
  EXPECT_TRUE(same_bits(expected, step(region)));
  ASSERT_GT(region.last_step().offloaded_bytes, 0);
  const Capture capture;
  EXPECT_TRUE(same_bits(expected, step(region)));
  EXPECT_EQ(region.last_step().offloaded_bytes, 0);
}

}  // namespace
}  // namespace gradrecomp::test
