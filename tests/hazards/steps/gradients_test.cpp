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

// To autograd the tensor that it saved is another one then, and the gradient would go nowhere.
TEST(Gradients, H14OfWhatAsksForThemOnlyAfterTheRegionAreRefused) {
  const auto second_gradient = [](bool asks_late, const auto& run) {
    const auto x = torch::full({4}, 2.0).requires_grad_();
    const auto weight = torch::full({4}, 3.0).requires_grad_(!asks_late);
    const at::Tensor y = run([&] { return x * x * weight; });
    weight.requires_grad_();
    const auto first = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true,
                                             /*create_graph=*/true);
    first.front().sum().backward();
    return weight.grad();
  };
  const auto plainly = [](const auto& part) { return part(); };
  for (const char* policy : {"keep_all", "drop_all"}) {
    Region region({.policy = policy});
    const auto in_region = [&](const auto& part) { return region.run(part); };
    EXPECT_TRUE(at::equal(second_gradient(/*asks_late=*/false, in_region),
                          second_gradient(/*asks_late=*/false, plainly)));
    EXPECT_THROW(second_gradient(/*asks_late=*/true, in_region), c10::ValueError);
  }
  EXPECT_TRUE(second_gradient(/*asks_late=*/true, plainly).defined());
}

TEST(Gradients, H14OfWhatAsksForThemLateAreNotMissedByAFirstDerivative) {
  const auto x = torch::full({4}, 2.0).requires_grad_();
  const auto weight = torch::full({4}, 3.0);
  Region region({.policy = "drop_all"});
  const auto y = region.run([&] { return x * x * weight; });
  weight.requires_grad_();
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), torch::full({4}, 12.0)));
  EXPECT_FALSE(weight.grad().defined());
}

}  // namespace
}  // namespace gradrecomp::test
