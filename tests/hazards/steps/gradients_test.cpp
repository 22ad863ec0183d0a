// Conformance H14: gradients that a step finds there, or makes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "hazards/steps/layers.h"

namespace gradrecomp::test {
namespace {

TEST(Gradients, H14ThatExistOrNotAreSequencesOfTheirOwn) {
  auto model = layers(4, 64);
  Region region({.policy = "drop_all"});
  const auto measured = [&](bool keeps_gradients) {
    model->zero_grad(!keeps_gradients);
    const auto x = torch::randn({16, 64});
    MemoryMeter meter(c10::kCPU);
    region.run([&] { return model->forward(x); }).sum().backward();
    return meter.measured_peak_bytes();
  };
  for (const bool keeps : {false, false, true, true, true, false, true}) {
    const auto peak = measured(keeps);
    if (region.last_step().followed_plan) {
      EXPECT_EQ(peak, region.plan().predicted_peak_bytes) << (keeps ? "kept" : "none");
    }
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_TRUE(region.last_step().followed_plan);
}

TEST(Gradients, H14OfALeafThatOpsReadByItsViewsCountToo) {
  auto weight = torch::randn({64, 64}).requires_grad_();
  Region region({.policy = "drop_all"});
  int num_followed = 0;
  for (const bool keeps : {false, false, true, true, true, false, true}) {
    if (keeps && weight.grad().defined()) {
      weight.mutable_grad().zero_();
    } else {
      weight.mutable_grad() = keeps ? torch::zeros({64, 64}) : at::Tensor();
    }
    const auto x = torch::randn({2, 64});
    const MemoryMeter meter(c10::kCPU);
    region.run([&] { return x.mm(weight.view({64, 64}).t()).tanh().exp(); }).sum().backward();
    if (!region.last_step().followed_plan) continue;
    ++num_followed;
    EXPECT_EQ(meter.measured_peak_bytes(), region.plan().predicted_peak_bytes)
        << (keeps ? "kept" : "none");
  }
  EXPECT_EQ(region.num_plans(), 2);
  EXPECT_GE(num_followed, 3);
}

}  // namespace
}  // namespace gradrecomp::test
