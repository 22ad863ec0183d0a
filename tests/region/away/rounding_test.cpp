// Kept values that wait for backward rounded to bfloat16, where the program has asked for that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gradrecomp/plan/predict.h"
#include "gradrecomp/region.h"
#include "region/away/away_test.h"
#include "support/messages.h"
#include "support/plans.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

using ::testing::HasSubstr;

at::Tensor rounded(const at::Tensor& numbers) {
  return numbers.to(torch::kBFloat16).to(torch::kFloat);
}

double relative_error(const Tensors& expected, const Tensors& actual) {
  double difference = 0;
  double whole = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]).square().sum().item<double>();
    whole += expected[i].square().sum().item<double>();
  }
  return std::sqrt(difference / whole);
}

bool may_be_rounded(const plan::Value& value) { return may_leave(value) && value.rounds; }

/// Keeps everything, and rounds what of that autograd saves and may be as soon as it is made.
plan::Plan all_rounded(const plan::Graph& graph) {
  plan::Plan plan{.policy = "all_rounded", .signature = graph.signature};
  for (const plan::Value& value : graph.values) {
    const auto v = static_cast<plan::Index>(plan.keep.size());
    plan.keep.push_back(value.saved || value.exact ? 1 : 0);
    const bool is_rounded = value.saved && may_be_rounded(value);
    if (is_rounded) plan.roundings.push_back({v, value.producer});
  }
  return plan;
}

/// Rounds the same, and drops all that a plan may which rounds.
plan::Plan little_kept(const plan::Graph& graph) {
  plan::Plan plan = all_rounded(graph);
  for (std::size_t v = 0; v < graph.values.size(); ++v) plan.keep[v] = graph.values[v].exact;
  for (const plan::Rounding& rounding : plan.roundings) plan.keep[rounding.value] = 1;
  return plan;
}

/// Drops some values and rounds some of those that it keeps, at any moment that a plan can name.
plan::Plan random_roundings(const plan::Graph& graph, std::mt19937& random) {
  plan::Plan plan = all_rounded(graph);
  plan.roundings.clear();
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const plan::Value& value = graph.values[v];
    plan.keep[v] = !value.exact && random() % 4 == 0 ? 0 : 1;
    if (plan.keep[v] == 0 || !may_be_rounded(value) || random() % 3 == 0) continue;
    const auto num_later_ops = graph.ops.size() - static_cast<std::size_t>(value.producer);
    const auto later = static_cast<plan::Index>(random() % num_later_ops);
    plan.roundings.push_back({static_cast<plan::Index>(v), value.producer + later});
  }
  return plan;
}

class Rounding : public AwayTest {
 protected:
  static constexpr double kMostError = 0.02;

  void expect_nearly_exact(const plan::Plan& plan) {
    expect_exact_bytes(plan, Forms::lossy_bf16);
    EXPECT_LT(relative_error(gradients_, chain_.gradients()), kMostError);
  }
};

TEST_F(Rounding, OfAllThatIsKeptIsExactInBytesAndReplaysNothing) {
  const plan::Plan plan = all_rounded(graph_);
  ASSERT_GT(plan.roundings.size(), 10U);
  expect_nearly_exact(plan);
  EXPECT_GT(relative_error(gradients_, chain_.gradients()), 0);
  const plan::Plan predicted = plan::predict(graph_, plan);
  EXPECT_EQ(predicted.num_replayed_ops, 0);
  EXPECT_LT(predicted.predicted_peak_bytes, predicted.predicted_plain_peak_bytes * 3 / 4);
}

TEST_F(Rounding, ByAnyPlanIsExactInBytesAndReplays) {
  std::mt19937 random(1);
  std::int64_t num_roundings = 0;
  for (int i = 0; i < 40; ++i) {
    const plan::Plan plan = random_roundings(graph_, random);
    num_roundings += static_cast<std::int64_t>(plan.roundings.size());
    expect_nearly_exact(plan);
    if (HasFailure()) FAIL() << "plan " << i;
  }
  EXPECT_GT(num_roundings, 200);
}

TEST_F(Rounding, IsPlannedWhereItSavesMoreThanReplays) {
  Region exact({.max_overhead = 0, .cost = plan::CostModel::flops});
  chain_.step(exact);
  Region region({.max_overhead = 0, .cost = plan::CostModel::flops, .forms = Forms::lossy_bf16});
  chain_.step(region);
  EXPECT_EQ(relative_error(gradients_, chain_.gradients()), 0);  // the profiled step is plain
  EXPECT_EQ(chain_.step(region), region.plan().predicted_peak_bytes);
  EXPECT_TRUE(region.plan().feasible);
  EXPECT_LT(region.plan().predicted_peak_bytes, exact.plan().predicted_peak_bytes);
  EXPECT_GT(region.last_step().rounded_bytes, 0);
  EXPECT_THAT(region.brief_report(), HasSubstr("rounded to bfloat16 (gradients are not plain's)"));
  EXPECT_LT(relative_error(gradients_, chain_.gradients()), kMostError);
}

TEST_F(Rounding, WithoutTheOptionNothingIsRounded) {
  Region region({.max_peak_bytes = 1});
  chain_.step(region);
  chain_.step(region);
  EXPECT_TRUE(region.plan().roundings.empty());
  EXPECT_EQ(region.last_step().rounded_bytes, 0);
  expect_same_bits(gradients_, chain_.gradients());
}

TEST_F(Rounding, OfAPlanIsRefusedWithoutTheOption) {
  const auto given = shared(all_rounded(graph_));
  EXPECT_THAT(message_of([&] { Region region({.plan = given}); }),
              HasSubstr("Options::plan rounds values, but Options::forms is Forms::exact."));
}

/// Expects that steps of `body`, in regions that round all they may, end with gradients of `x` that
/// `is_right` accepts.
void expect_gradient_with_all_rounded(at::Tensor& x, const std::function<at::Tensor()>& body,
                                      const std::function<void(const at::Tensor&)>& is_right) {
  Region maker({.policy = "keep_all"});
  maker.run(body).backward();
  x.mutable_grad() = at::Tensor();
  for (const auto& make : {all_rounded, little_kept}) {
    const auto plan = shared(make(maker.graph()));
    EXPECT_FALSE(plan->roundings.empty());
    Region region({.plan = plan, .forms = Forms::lossy_bf16});
    for (int step = 0; step < 3; ++step) {
      region.run(body).backward();
      const auto gradient = std::exchange(x.mutable_grad(), at::Tensor());
      if (step > 0) is_right(gradient);
    }
    EXPECT_TRUE(region.last_step().followed_plan);
    EXPECT_GT(region.last_step().rounded_bytes, 0);
  }
}

/// Saves sums in a type that it is told, which no operator reads.
struct SumsOfType : torch::autograd::Function<SumsOfType> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            at::ScalarType type) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto sums = at::sum((x * 10).unsqueeze(1), {1}, false, type);
    context->save_for_backward({sums});
    return x.sum();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    return {gradients[0] * context->get_saved_variables()[0].to(at::kFloat), at::Tensor()};
  }
};

TEST_F(Rounding, LeavesAloneWhatHasAnotherTypeThanInTheProfiledStep) {
  const auto x = torch::randn({256, 256}).requires_grad_();
  at::ScalarType type = at::kFloat;
  const auto body = [&] { return SumsOfType::apply(x, type) + SumsOfType::apply(x, type); };
  const auto gradient = [&](Region& region) {
    return torch::autograd::grad({region.run(body)}, {x}).front();
  };
  Region maker({.policy = "drop_all"});
  gradient(maker);
  const auto plan = shared(all_rounded(maker.graph()));
  EXPECT_FALSE(plan->roundings.empty());
  Region region({.plan = plan, .forms = Forms::lossy_bf16});
  gradient(region);
  gradient(region);
  EXPECT_GT(region.last_step().rounded_bytes, 0);
  type = at::kInt;
  const auto expected = torch::autograd::grad({body()}, {x}).front();
  expect_same_bits({expected}, {gradient(region)});
}

TEST_F(Rounding, GivesBackwardTheRoundedNumbers) {
  const auto input = torch::randn({64});
  auto x = torch::ones({64}).requires_grad_();
  expect_gradient_with_all_rounded(
      x, [&] { return ((input * 1.5) * x).sum(); },
      [&](const at::Tensor& gradient) { EXPECT_TRUE(same_bits(gradient, rounded(input * 1.5))); });
}

TEST_F(Rounding, TellsInfinitiesFromNumbersBeyondBfloat16) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kLargestOf16Bits = 0x1.FEp127F;
  const auto input = torch::tensor({kInfinity, kLargest, -kLargest, -kInfinity});
  const auto expected = torch::tensor({kInfinity, kLargestOf16Bits, -kLargestOf16Bits, -kInfinity});
  auto x = torch::ones({4}).requires_grad_();
  expect_gradient_with_all_rounded(
      x, [&] { return ((input * 1) * x).sum(); },
      [&](const at::Tensor& gradient) { EXPECT_TRUE(same_bits(gradient, expected)) << gradient; });
}

/// Expects that gradients of `x` are nearly plain's, and 0 where those are.
void expect_nearly_plain(at::Tensor& x, const std::function<at::Tensor()>& body) {
  const auto plain = torch::autograd::grad({body()}, {x})[0];
  expect_gradient_with_all_rounded(x, body, [&](const at::Tensor& gradient) {
    EXPECT_TRUE(at::equal(plain == 0, gradient == 0));
    EXPECT_LT(relative_error({plain}, {gradient}), 0.02);
    EXPECT_FALSE(same_bits(plain, gradient));
  });
}

// What was drawn, and which elements were largest, is the same as in plain training.
TEST_F(Rounding, KeepsMasksAndChoices) {
  auto x = torch::randn({2, 3, 16, 16}).requires_grad_();
  expect_nearly_plain(x, [&] {
    torch::manual_seed(7);
    const auto dropped = torch::dropout(torch::gelu(x * 1.7), 0.5, true);
    const auto chosen = torch::where(dropped > 0.3, torch::silu(dropped), dropped * 2);
    return torch::max_pool2d(chosen, 2).sum();
  });
}

// Where a small number would get another sign, or another whole part, a whole gradient would come
// or go, and a maximum's backward pass looks for the number that equals it.
TEST_F(Rounding, LeavesOperatorsWithKinksAlone) {
  auto x = torch::randn({64, 64}).requires_grad_();
  const auto weight = torch::randn({64, 64}) / 8;
  const auto smooth = [&] { return torch::gelu(x.mm(weight) * 1.5); };
  expect_nearly_plain(x, [&] { return torch::relu(smooth().mm(weight)).mm(weight).sum(); });
  expect_nearly_plain(x, [&] { return smooth().amax(1).sum(); });
  expect_nearly_plain(x, [&] {
    auto steps = (smooth() * 4).floor();
    steps.mul_(0.1);
    return (torch::silu(smooth() * 1.1) * steps).sum();
  });
  expect_nearly_plain(x, [&] { return torch::log(1.01 - torch::sigmoid(smooth() * 6)).sum(); });
}

// A dropout's mask times a number would be wrong by as much as that number.
TEST_F(Rounding, LeavesWhatIsMadeOfMasksAlone) {
  const auto input = torch::randn({512});
  auto x = torch::ones({512}).requires_grad_();
  const auto body = [&] {
    torch::manual_seed(7);
    return (torch::dropout(x, 0.1, true) + (input * 1.5) * x).sum();
  };
  torch::manual_seed(7);
  const auto mask = torch::dropout(torch::ones({512}), 0.1, true);
  expect_gradient_with_all_rounded(x, body, [&](const at::Tensor& gradient) {
    const auto difference = gradient - rounded(input * 1.5) - mask;
    EXPECT_LT(difference.abs().max().item<float>(), 1e-5);
  });
}

TEST_F(Rounding, IsPlannedForATensorThatItsOperatorGaveASize) {
  const auto input = torch::randn({64});
  auto x = torch::ones({64}).requires_grad_();
  Region region({.max_overhead = 0, .cost = plan::CostModel::flops, .forms = Forms::lossy_bf16});
  for (int step = 0; step < 3; ++step) {
    x.mutable_grad() = at::Tensor();
    region
        .run([&] {
          auto square = torch::empty({0});
          {
            const torch::NoGradGuard no_grad;
            at::mul_out(square, input, input);
          }
          return (square * x).sum();
        })
        .backward();
    EXPECT_LT(relative_error({input * input}, {x.grad()}), kMostError);
  }
  EXPECT_TRUE(region.last_step().followed_plan);
}

/// Expects that a plan which rounds the only value of `body` that may be, right before the first op
/// of a name, is exact in bytes.
void expect_exact_if_rounded_before(const char* name, at::Tensor x,
                                    const std::function<at::Tensor()>& body) {
  const auto measured_peak = [&](Region& region) {
    x.mutable_grad() = at::Tensor();
    const MemoryMeter meter(at::kCPU);
    region.run(body).backward();
    return meter.measured_peak_bytes();
  };
  Region profiled({.policy = "keep_all"});
  measured_peak(profiled);
  plan::Plan plan = all_rounded(profiled.graph());
  ASSERT_EQ(plan.roundings.size(), 1U);
  const auto& ops = profiled.graph().ops;
  const auto reader = std::ranges::find(ops, name, &plan::Op::name);
  ASSERT_NE(reader, ops.end());
  plan.roundings.front().after = static_cast<plan::Index>(reader - ops.begin()) - 1;
  Region region({.plan = shared(plan), .forms = Forms::lossy_bf16});
  measured_peak(region);
  const auto measured = measured_peak(region);
  EXPECT_EQ(region.last_step().rounded_bytes, 8192);
  EXPECT_EQ(measured, region.plan().predicted_peak_bytes);
}

// The BatchNorm copies its statistics first, by ops of their own, after the last of which a value
// is due to be rounded.
TEST_F(Rounding, TakesPlaceBetweenCopiesOfStatisticsAndTheirReader) {
  const auto image = torch::randn({8, 4, 16, 16});
  const auto mean = torch::zeros({4});
  const auto variance = torch::ones({4});
  auto x = torch::randn({2048}).requires_grad_();
  expect_exact_if_rounded_before("aten::native_batch_norm", x, [&] {
    const auto sum = torch::gelu(x * 2).sum();
    return sum + torch::batch_norm(image, {}, {}, mean, variance, false, 0.1, 1e-5, false).sum();
  });
}

// What they make is no value, but takes memory.
TEST_F(Rounding, TakesPlaceBehindCallsThatPutNothingOnTheTape) {
  const auto image = torch::randn({128, 128});
  auto x = torch::randn({2048}).requires_grad_();
  expect_exact_if_rounded_before("aten::mul_", x, [&] {
    auto sum = torch::gelu(x * 2).sum();
    image.to_sparse();
    return sum.mul_(3);
  });
}

// Such a call is followed by an op that stands for what it made, before which a value is due.
TEST_F(Rounding, TakesPlaceBesideWhatAnUnrecordedCallHasMade) {
  const auto image = torch::randn({128, 128});
  const auto quantized = at::quantize_per_tensor(image, 0.1, 0, torch::kQInt8);
  auto x = torch::randn({2048}).requires_grad_();
  expect_exact_if_rounded_before("aten::dequantize", x, [&] {
    const auto sum = torch::gelu(x * 2).sum();
    return sum + quantized.dequantize().sum();
  });
}

TEST_F(Rounding, OfOtherTypesThanFloat32IsNotPlanned) {
  for (const auto type : {torch::kDouble, torch::kBFloat16}) {
    const auto x = torch::randn({64}).to(type).requires_grad_();
    Region region({.max_overhead = 0.05, .forms = Forms::lossy_bf16});
    region.run([&] { return (torch::gelu(x * 2) * x).sum(); }).backward();
    for (const plan::Value& value : region.graph().values) EXPECT_FALSE(value.rounds);
  }
}

}  // namespace
}  // namespace gradrecomp::test
