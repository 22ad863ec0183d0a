// Pointwise ops whose replays are one pass with what made their input.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/plan/simulate.h"
#include "gradrecomp/region.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

using Function = std::function<at::Tensor(const at::Tensor&)>;

/// What the second of two steps of `function` did that drop everything.
struct Step {
  StepReport report;
  plan::Graph graph;
  std::int64_t peak_bytes = 0;
};

class JoinedOps : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_counter(); }
  void SetUp() override { torch::manual_seed(1); }

  [[nodiscard]] at::Tensor input(at::ScalarType type = at::kFloat) const {
    return torch::randn({6, 8, 5, 7}).to(type).contiguous(format_).requires_grad_();
  }

  /// Checks bits, peak and replays of each step, too.
  [[nodiscard]] static Step run(const Function& function, const at::Tensor& x,
                                Options options = {.policy = "drop_all"}) {
    const auto gradient = [&](Region* region) {
      torch::manual_seed(1);  // for functions that draw
      const auto y = region != nullptr ? region->run([&] { return function(x); }) : function(x);
      return torch::autograd::grad({y.to(at::kFloat).pow(2).sum()}, {x})[0];
    };
    const at::Tensor plain = gradient(nullptr);
    Region region(std::move(options));
    EXPECT_TRUE(same_bits(gradient(&region), plain));
    const MemoryMeter meter(c10::kCPU);
    const at::Tensor replayed = gradient(&region);
    const Step step{region.last_step(), region.graph(), meter.measured_peak_bytes()};
    EXPECT_TRUE(same_bits(replayed, plain));
    EXPECT_TRUE(step.report.followed_plan);
    EXPECT_EQ(step.report.num_replayed_ops, region.plan().num_replayed_ops);
    EXPECT_EQ(step.peak_bytes, region.plan().predicted_peak_bytes);
    return step;
  }

  at::MemoryFormat format_ = at::MemoryFormat::Contiguous;
};

std::int64_t num_joining(const plan::Graph& graph) {
  return std::ranges::count(graph.ops, true, &plan::Op::joins);
}

/// sin'(y) keeps y alone, so all between x.sin() and y is made again.
at::Tensor relu_of_sum(const at::Tensor& x, const at::Tensor& other) {
  return (torch::relu(x.sin() * 0.5 + other) + 1).sin();
}

TEST_F(JoinedOps, AreReplayedInOnePassWithWhatMadeTheirInput) {
  const at::Tensor other = torch::randn({6, 8, 5, 7});
  const Function function = [&](const at::Tensor& x) { return relu_of_sum(x, other); };
  const at::Tensor x = input();
  const Step step = run(function, x);
  EXPECT_EQ(num_joining(step.graph), 4);
  // ReLU's result is saved, so the pass is taken in two: sin, *, +, relu and then + 1.
  EXPECT_EQ(step.report.num_substituted_ops, 4);
  const Step apart = run(function, x, {.policy = "drop_all", .substitutes = false});
  EXPECT_EQ(apart.report.num_substituted_ops, 0);
  EXPECT_EQ(num_joining(apart.graph), 0);
}

/// The highest live bytes while ops are replayed, all having been dropped.
std::int64_t replay_peak(const plan::Graph& graph) {
  plan::Timeline timeline;
  plan::Simulator simulator(graph);
  simulator.run(std::vector<std::uint8_t>(graph.values.size(), 0), timeline);
  std::int64_t peak = 0;
  for (const plan::Index t : timeline.replay_events) peak = std::max(peak, timeline.peak_bytes[t]);
  return peak;
}

TEST_F(JoinedOps, NeedNoMemoryForWhatIsBetween) {
  const at::Tensor x = input();
  const Step step = run([](const at::Tensor& t) { return (t.sin() * 2 + 1).sin(); }, x);
  plan::Graph apart = step.graph;
  for (plan::Op& op : apart.ops) {
    op.joins = false;
    op.joined_seconds = 0;
  }
  EXPECT_EQ(replay_peak(apart) - replay_peak(step.graph), static_cast<std::int64_t>(x.nbytes()));
}

TEST_F(JoinedOps, BehindBatchNormNeedNotWriteInPlace) {
  torch::nn::BatchNorm2d norm(8);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    format_ = format;
    const at::Tensor x = input();
    const at::Tensor weight = torch::randn({4, 8, 3, 3}).contiguous(format);
    const Step step = run(
        [&](const at::Tensor& t) { return at::conv2d(torch::relu(norm(t) + t) * 2, weight); }, x);
    EXPECT_EQ(num_joining(step.graph), 3) << "layout " << static_cast<int>(format);
    EXPECT_EQ(step.report.num_substituted_ops, 4) << "layout " << static_cast<int>(format);
  }
}

TEST_F(JoinedOps, OfEveryKindGiveEqualBitsInEveryDtype) {
  const at::Tensor mask = torch::rand({6, 8, 5, 7}) < 0.6;
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor x = input(type);
    const at::Tensor other = torch::randn({6, 8, 5, 7}).to(type);
    const auto function = [&](const at::Tensor& t) {
      auto y = (t.sin() * mask * (1 / 0.9) + other) * other;
      y = y + 0.3;
      y.mul_(1.7).add_(other).add_(0.123).div_(0.7).relu_();
      return (y * 3.3 / 1.3).sin();
    };
    const Step step = run(function, x);
    EXPECT_GE(num_joining(step.graph), 10) << type;
    EXPECT_GE(step.report.num_substituted_ops, 10) << type;
  }
}

// Its mask is drawn, divided by the share that it keeps, and multiplied with.
TEST_F(JoinedOps, OfADropoutFollowItsUnpackedMask) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const auto function = [](const at::Tensor& x) {
      return torch::dropout(x.sin(), 0.3, /*train=*/true).sin();
    };
    const Step step = run(function, input(type));
    EXPECT_EQ(num_joining(step.graph), 2) << type;
    EXPECT_EQ(step.report.num_substituted_ops, 3) << type;
  }
}

TEST_F(JoinedOps, WaitForWhatElseWantsTheirInput) {
  const Step step = run(
      [](const at::Tensor& x) {
        const at::Tensor between = x.sin() * 2;
        const at::Tensor sum = between + 1;
        return (sum.relu() + between).sin();  // reads what is between once more
      },
      input());
  EXPECT_GT(num_joining(step.graph), 0);
}

TEST_F(JoinedOps, LeaveWhatKernelsDoNotTakeToTheCall) {
  const at::Tensor column = torch::randn({8, 1, 1});
  const at::Tensor transposed = torch::randn({7, 5, 8, 6}).permute({3, 2, 1, 0});
  const std::vector<Function> functions = {
      [&](const at::Tensor& x) { return (x.sin() + column).sin(); },      // broadcasts
      [&](const at::Tensor& x) { return (x.sin() + transposed).sin(); },  // in another order
      [&](const at::Tensor& x) { return at::add(x.sin(), x, 2).sin(); },  // scales its operand
      [&](const at::Tensor& x) { return (x.sin() / x.exp()).sin(); },     // by no number
      [&](const at::Tensor& x) { return (at::ones({}) / x.sin()).sin(); },
      [&](const at::Tensor& x) { return x.sin().transpose(0, 1).add(1).sin(); },  // is a view
      [&](const at::Tensor& x) { return (x.sin().to(at::kDouble) * 2).sin(); },
      [&](const at::Tensor& x) { return x.sin().select(3, 2).mul(3).sin(); }};
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const Step step = run(functions[i], input());
    EXPECT_EQ(step.report.num_substituted_ops, i == 5 ? 1 : 0) << "function " << i;
  }
}

// What a first step computes must not decide what later ones may do.
TEST_F(JoinedOps, StayExactForNumbersThatTheFirstStepHadNot) {
  at::Tensor other = torch::zeros({6, 8, 5, 7});
  const at::Tensor x = torch::zeros({6, 8, 5, 7}).requires_grad_();
  const auto gradient = [&](Region* region) {
    const auto forward = [&] { return relu_of_sum(x, other); };
    const auto y = region != nullptr ? region->run(forward) : forward();
    return torch::autograd::grad({y.sum()}, {x})[0];
  };
  Region region({.policy = "drop_all"});
  static_cast<void>(gradient(&region));
  const torch::NoGradGuard no_grad;
  x.normal_().mul_(1e20);
  other.normal_();
  other[0].fill_(std::numeric_limits<float>::infinity());
  other[1].fill_(-0.0);
  const torch::AutoGradMode grad(true);
  EXPECT_TRUE(same_bits(gradient(nullptr), gradient(&region)));
  EXPECT_EQ(region.last_step().num_substituted_ops, 4);
}

// A number may be one of many in a table, and one that 16 bits hold in a first step alone.
TEST_F(JoinedOps, TakeNumbersFromATable) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const auto table_type : {at::kFloat, at::kLong, at::kInt, at::kShort}) {
      const at::Tensor x = input(type);
      at::Tensor table = torch::full({300}, 1, table_type);
      const auto gradient = [&](Region* region) {
        const auto forward = [&] {
          return (((x.sin() + table[1]) * table[37]).sin() - table[299]).sin();
        };
        const auto y = region != nullptr ? region->run(forward) : forward();
        return torch::autograd::grad({y.to(at::kFloat).sum()}, {x})[0];
      };
      Region region({.policy = "drop_all"});
      for (const double next : {1.0, 1.0, 257.4, 2049.7}) {
        table.fill_(next);
        EXPECT_TRUE(same_bits(gradient(nullptr), gradient(&region)))
            << type << " beside " << table_type << ", " << next;
      }
      EXPECT_GT(region.last_step().num_substituted_ops, 0);
    }
  }
}

TEST_F(JoinedOps, TakeNumbersThatTheirResultsTypeDoesNotHold) {
  for (const auto number_type : {at::kBFloat16, at::kFloat, at::kDouble, at::kInt}) {
    const at::Tensor x = input(at::kHalf);
    const at::Tensor number = torch::ones({}, number_type);
    double scale = 1;
    const auto gradient = [&](Region* region) {
      const auto forward = [&] { return ((x.sin() * scale + number) * 1e-3).sin(); };
      const auto y = region != nullptr ? region->run(forward) : forward();
      return torch::autograd::grad({y.to(at::kFloat).sum()}, {x})[0];
    };
    Region region({.policy = "drop_all"});
    static_cast<void>(gradient(&region));
    scale = -40000;
    number.fill_(70144);
    EXPECT_TRUE(same_bits(gradient(nullptr), gradient(&region))) << number_type;
  }
}

// As many elements as leave one for which there is no vector.
TEST_F(JoinedOps, KeepTheBitsOfNaNs) {
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor x = torch::ones({33}).to(type).requires_grad_();
    const at::Tensor factor = torch::ones({33}).to(type).requires_grad_();
    const auto gradient = [&](Region* region) {
      const auto forward = [&] { return (x.sin() * 2 + 1) * factor; };
      const auto y = region != nullptr ? region->run(forward) : forward();
      return torch::autograd::grad({y.to(at::kFloat).sum()}, {factor})[0];
    };
    Region region({.policy = "drop_all"});
    static_cast<void>(gradient(&region));
    x.detach().view(at::kShort).copy_(torch::arange(0x7FC0, 0x7FC0 + 33));
    EXPECT_TRUE(same_bits(gradient(nullptr), gradient(&region))) << type;
    EXPECT_GT(region.last_step().num_substituted_ops, 0);
  }
}

// By way of a double it would be rounded twice, from just above the middle of two floats.
TEST_F(JoinedOps, RoundWholeNumbersOnce) {
  constexpr std::int64_t kAboveMiddle = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  const at::Tensor x = input();
  std::int64_t scale = 2;
  const auto gradient = [&](Region* region) {
    const auto forward = [&] {
      const at::Tensor number = torch::full({}, scale, torch::kLong);
      return ((x.sin() * scale) * 1e-18 * number * 1e-18 / scale / number).sin();
    };
    const auto y = region != nullptr ? region->run(forward) : forward();
    return torch::autograd::grad({y.sum()}, {x})[0];
  };
  Region region({.policy = "drop_all"});
  for (const std::int64_t next : {std::int64_t{2}, std::int64_t{2}, kAboveMiddle}) {
    scale = next;
    EXPECT_TRUE(same_bits(gradient(nullptr), gradient(&region))) << next;
  }
  EXPECT_GT(region.last_step().num_substituted_ops, 0);
}

// Numbers belong to no op sequence, so a plan goes on with others. 16 bits hold 1, but not 0.3.
TEST_F(JoinedOps, StayExactForScalesThatTheFirstStepHadNot) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor x = input(type);
    const at::Tensor other = torch::randn({6, 8, 5, 7}).to(type);
    c10::Scalar scale = 1;
    const auto gradient = [&](Region* region) {
      const auto forward = [&] {
        const at::Tensor number = torch::full({}, scale);
        auto y = (x.sin() * scale + scale).mul_(scale).add_(scale).div_(scale) * number + number;
        y = y / number / scale;
        return at::add(y, other, scale).sin();
      };
      const auto y = region != nullptr ? region->run(forward) : forward();
      return torch::autograd::grad({y.to(at::kFloat).sum()}, {x})[0];
    };
    Region region({.policy = "drop_all"});
    for (const double next : {1.0, 1.0, 0.3, 1e-3}) {
      scale = next;
      EXPECT_TRUE(same_bits(gradient(nullptr), gradient(&region))) << type << " " << next;
      EXPECT_TRUE(region.last_step().profiled || region.last_step().followed_plan);
      const bool replays_by_kernels = region.last_step().num_substituted_ops > 0;
      EXPECT_TRUE(region.last_step().profiled || replays_by_kernels) << type << " " << next;
    }
  }
}

}  // namespace
}  // namespace gradrecomp::test
