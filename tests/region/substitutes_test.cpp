// Ops that are replayed by kernels different from those that they ran by.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "gradrecomp/region.h"
#include "gradrecomp/report.h"
#include "plan/simulator/replay_cost.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using Tensors = std::vector<at::Tensor>;

Forward in_region(Region& region, const Program& program) {
  return [&](const Tensors& inputs) { return region.run([&] { return program.forward(inputs); }); };
}

/// What the last of three steps replayed under `options`; each step equal to the plain one.
StepReport replays_of(const std::function<Program()>& make, Options options) {
  torch::manual_seed(1);
  const auto plain_program = make();
  const auto plain = train(plain_program, plain_program.forward, 3);
  torch::manual_seed(1);
  const auto program = make();
  Region region(std::move(options));
  const auto wrapped = train(program, in_region(region, program), 3);
  expect_same(plain, wrapped);
  return region.last_step();
}

/// Convolution, BatchNorm, residual sum and ReLU, the last two in place.
Program residual_block(at::ScalarType type, at::MemoryFormat format, std::int64_t num_channels) {
  struct Block : nn::Module {
    explicit Block(std::int64_t channels)
        : conv(register_module("conv",
                               nn::Conv2d(nn::Conv2dOptions(channels, channels, 3).padding(1)))),
          norm(register_module("norm", nn::BatchNorm2d(channels))),
          last(register_module("last", nn::Conv2d(nn::Conv2dOptions(channels, 2, 1)))) {}
    nn::Conv2d conv;
    nn::BatchNorm2d norm;
    nn::Conv2d last;
  };
  auto block = std::make_shared<Block>(num_channels);
  block->to(type);
  return {block,
          [block](const Tensors& inputs) {
            auto y = block->norm(block->conv(inputs[0]));
            y += inputs[0];
            return Tensors{block->last(y.relu_()).tanh()};
          },
          [=] {
            return Tensors{
                torch::randn({4, num_channels, 9, 7}).to(type).contiguous(format).requires_grad_()};
          }};
}

TEST(Substitutes, BatchNormResidualAndReluAreMadeAgainInOnePass) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto make = [format] { return residual_block(at::kFloat, format, 6); };
    const StepReport step = replays_of(make, {.policy = "drop_all"});
    EXPECT_EQ(step.num_substituted_ops, 3) << "layout " << static_cast<int>(format);
  }
}

TEST(Substitutes, LayerNormIsMadeAgainFromItsStatistics) {
  const auto make = [] {
    nn::Sequential model(nn::Linear(12, 20), nn::LayerNorm(nn::LayerNormOptions({20})), nn::GELU(),
                         nn::Linear(20, 3), nn::Tanh());
    return Program{
        model.ptr(),
        [model](const Tensors& inputs) mutable { return Tensors{model->forward(inputs[0])}; },
        [] {
          return Tensors{torch::randn({5, 12}).requires_grad_()};
        }};
  };
  EXPECT_EQ(replays_of(make, {.policy = "drop_all"}).num_substituted_ops, 1);
}

TEST(Substitutes, AreNotUsedWhereTheyAreOffOrNothingWasVerified) {
  const auto make = [] { return residual_block(at::kFloat, at::MemoryFormat::Contiguous, 4); };
  const StepReport off = replays_of(make, {.policy = "drop_all", .substitutes = false});
  EXPECT_GT(off.num_replayed_ops, 0);
  EXPECT_EQ(off.num_substituted_ops, 0);
  const StepReport unverified = replays_of(make, {.policy = "drop_all", .verify = Verify::never});
  EXPECT_GT(unverified.num_replayed_ops, 0);
  EXPECT_EQ(unverified.num_substituted_ops, 0);
}

TEST(Substitutes, LeaveDtypesWithoutKernelsAlone) {
  const auto make = [] { return residual_block(at::kDouble, at::MemoryFormat::Contiguous, 4); };
  const StepReport step = replays_of(make, {.policy = "drop_all"});
  EXPECT_GT(step.num_replayed_ops, 0);
  EXPECT_EQ(step.num_substituted_ops, 0);
}

TEST(Substitutes, GiveEqualBitsInHalfPrecision) {
  const auto make = [] { return residual_block(at::kBFloat16, at::MemoryFormat::Contiguous, 4); };
  EXPECT_GT(replays_of(make, {.policy = "drop_all"}).num_replayed_ops, 0);
}

/// Max pooling of the input's squares.
Program pooling(at::MemoryFormat format) {
  return {std::make_shared<nn::Module>(),
          [](const Tensors& inputs) {
            return Tensors{at::max_pool2d(inputs[0].square(), {3, 2}, {2, 1}, {1, 1})};
          },
          [format] {
            return Tensors{torch::randn({2, 3, 8, 9}).contiguous(format).requires_grad_()};
          }};
}

TEST(Substitutes, IndicesOfMaxPoolingAreUnpacked) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const StepReport step =
        replays_of([format] { return pooling(format); }, {.policy = "drop_all"});
    EXPECT_EQ(step.num_substituted_ops, 1) << "layout " << static_cast<int>(format);
  }
}

// Both columns of a window may lie beside the image, where LibTorch returns an index that is not
// in the window. The step has the sizes of those before it, and follows their plan.
TEST(Substitutes, IndicesOfWindowsWithoutAnElementAreThoseOfLibTorch) {
  constexpr int kNumSteps = 4;
  const auto inputs = torch::randn({kNumSteps, 1, 2, 4, 4});
  const auto gradients = [&](const auto& run) {
    std::vector<at::Tensor> all;
    for (int step = 0; step < kNumSteps; ++step) {
      auto x = inputs[step].clone().requires_grad_();
      const auto y = run([&] {
        const auto h = x.tanh();
        return step < kNumSteps / 2 ? at::max_pool2d(h, {2, 4}, {1, 1}, {0, 0}, {1, 1})
                                    : at::max_pool2d(h, {2, 2}, {1, 1}, {0, 1}, {1, 5});
      });
      y.sum().backward();
      all.push_back(x.grad());
    }
    return all;
  };
  const auto plain = gradients([](const auto& body) { return body(); });
  for (const char* policy : {"keep_all", "drop_all", "nested"}) {
    SCOPED_TRACE(policy);
    Region region({.policy = policy, .unrecorded_bytes = 0});
    expect_same_bits(plain, gradients([&](const auto& body) { return region.run(body); }));
  }
}

TEST(Substitutes, MasksOfDropoutAreUnpacked) {
  const auto make = [] {
    return Program{
        std::make_shared<nn::Module>(),
        [](const Tensors& inputs) {
          return Tensors{std::get<0>(at::native_dropout(inputs[0].sin(), 0.4, true)).tanh()};
        },
        [] {
          return Tensors{torch::randn({5, 13}).requires_grad_()};
        }};
  };
  EXPECT_EQ(replays_of(make, {.policy = "drop_all"}).num_substituted_ops, 1);
}

/// A dropout, which draws its mask in place on CPU.
Program dropout(at::ScalarType type, const Tensors& masks_of_users) {
  return {std::make_shared<nn::Module>(),
          [masks_of_users](const Tensors& inputs) {
            auto y = torch::dropout(inputs[0].sin(), 0.4, true).tanh();
            for (const at::Tensor& like : masks_of_users) {
              y = y * torch::empty_like(like).bernoulli_(0.7).div_(0.7);
            }
            return Tensors{y};
          },
          [type] {
            return Tensors{torch::randn({37, 50}).to(type).requires_grad_()};
          }};
}

TEST(Substitutes, MasksDrawnInPlaceAreUnpacked) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const auto transposed = torch::zeros({50, 37}, type).t();
    const auto make = [&] { return dropout(type, {transposed, torch::zeros({50})}); };
    const StepReport off = replays_of(make, {.policy = "drop_all", .substitutes = false});
    const StepReport on = replays_of(make, {.policy = "drop_all"});
    EXPECT_EQ(on.num_replayed_ops, off.num_replayed_ops + 3) << "an unpacking for each mask";
    EXPECT_GE(on.num_substituted_ops, 3) << type;
  }
}

/// The value of the fewest bytes that a call of that name makes.
std::size_t smallest_result(const plan::Graph& graph, const std::string& name) {
  std::size_t smallest = graph.values.size();
  for (const plan::Op& op : graph.ops) {
    for (const plan::Index v : op.outputs) {
      if (op.name != name) continue;
      const bool first = smallest == graph.values.size();
      if (first || graph.values[v].bytes < graph.values[smallest].bytes) smallest = v;
    }
  }
  return smallest;
}

TEST(Substitutes, KeptPackedIndicesMakeAReplayOfThePoolingNeedless) {
  const auto make = [] { return pooling(at::MemoryFormat::Contiguous); };
  Region dropping({.policy = "drop_all"});
  const auto program = make();
  train(program, in_region(dropping, program), 2);
  auto plan = std::make_shared<plan::Plan>(dropping.plan());
  plan->keep.at(smallest_result(dropping.graph(), "aten::max_pool2d_with_indices")) = 1;
  const StepReport step = replays_of(make, {.plan = plan});
  EXPECT_EQ(step.num_replayed_ops, dropping.last_step().num_replayed_ops - 1);
  EXPECT_EQ(step.num_substituted_ops, 1);
}

TEST(Substitutes, KeptBitsOfADropoutMakeADrawNeedless) {
  const auto make = [] { return dropout(at::kFloat, {}); };
  Region dropping({.policy = "drop_all"});
  const auto program = make();
  train(program, in_region(dropping, program), 2);
  auto plan = std::make_shared<plan::Plan>(dropping.plan());
  const std::size_t bits = smallest_result(dropping.graph(), "aten::bernoulli_");
  EXPECT_EQ(dropping.graph().values.at(bits).bytes, (37 * 50 + 7) / 8);
  plan->keep.at(bits) = 1;
  const StepReport step = replays_of(make, {.plan = plan});
  // Nor need there be memory for it, nor the activation that it has the shape of.
  EXPECT_EQ(step.num_replayed_ops, dropping.last_step().num_replayed_ops - 3);
}

TEST(Substitutes, MasksThatReachTheirMemoryLateAreDrawnAgain) {
  const auto make = [] {
    return Program{std::make_shared<nn::Module>(),
                   [](const Tensors& inputs) {
                     const auto& x = inputs[0];
                     const auto half = torch::empty_like(x);
                     half.slice(0, 0, 20).bernoulli_(0.5);
                     half.slice(0, 20).bernoulli_(0.5);
                     const auto zeros = torch::zeros_like(x);
                     const auto sum = zeros + 1;
                     const auto twice = torch::empty_like(x);
                     twice.bernoulli_(0.5);
                     const auto before = x + twice;
                     twice.bernoulli_(0.5);
                     return Tensors{before.sin() * half.div_(0.5) * zeros.bernoulli_(0.5).mul_(2) *
                                    twice.div_(3) * sum.sin()};
                   },
                   [] {
                     return Tensors{torch::randn({37, 50}).requires_grad_()};
                   }};
  };
  for (const auto policy : {"drop_all", "every_2"}) {
    EXPECT_GT(replays_of(make, {.policy = policy}).num_replayed_ops, 0) << policy;
  }
}

// The call and its application would count twice, the statistics are never replayed.
TEST(Substitutes, CountOnceInTheReportOfStages) {
  const auto program = residual_block(at::kFloat, at::MemoryFormat::Contiguous, 6);
  Region region({.policy = "drop_all"});
  train(program, in_region(region, program), 2);
  const plan::Graph& graph = region.graph();
  double forward_seconds = 0;
  double replay_seconds = 0;
  int num_parts = 0;
  for (const plan::Op& op : graph.ops) {
    const bool is_statistics = graph.values[op.outputs.front()].must_keep;
    forward_seconds += op.forward_seconds;
    replay_seconds += is_statistics ? 0 : plan::least_replay_seconds(op);
    num_parts += op.forward_seconds == 0 ? 1 : 0;
  }
  EXPECT_EQ(num_parts, 1);
  const auto rows = stage_rows(graph, region.plan());
  ASSERT_EQ(rows.size(), 1);
  EXPECT_DOUBLE_EQ(rows[0].forward_seconds, forward_seconds);
  EXPECT_DOUBLE_EQ(rows[0].replay_seconds, replay_seconds);
}

/// A LayerNorm and an in-place addition, both of which may begin as nothing.
struct ShiftedNorm {
  at::Tensor weight = torch::zeros({20});
  at::Tensor shift = torch::zeros({50, 20});
  at::Tensor input = torch::randn({50, 20}).requires_grad_();

  [[nodiscard]] at::Tensor gradient(Region* region) const {
    const auto forward = [this] {
      auto y = at::layer_norm(input * 3, {20}, weight);
      return y.add_(shift).sin();
    };
    const auto output = region != nullptr ? region->run(forward) : forward();
    return torch::autograd::grad({output.pow(2).sum()}, {input})[0];
  }

  /// Steps in one region before and after `change`, the second compared with a plain one.
  template <typename Change>
  void expect_exact_after(Change change) const {
    Region region({.policy = "drop_all"});
    static_cast<void>(gradient(&region));
    change();
    EXPECT_TRUE(same_bits(gradient(nullptr), gradient(&region)));
    EXPECT_TRUE(region.last_step().followed_plan);
    EXPECT_EQ(region.last_step().num_substituted_ops, 3);  // the scaling, the norm and the shift
  }
};

// With a weight of 0 all formulas give the same bits.
TEST(Substitutes, StayExactWhenWeightsLeaveTheirFirstValues) {
  torch::manual_seed(1);
  const ShiftedNorm norm;
  norm.expect_exact_after([&] { norm.weight.normal_(); });
}

// An addition of 0 does nothing; that of the next step does.
TEST(Substitutes, DoNotLeaveOutWhatFirstDidNothing) {
  torch::manual_seed(1);
  const ShiftedNorm norm;
  norm.expect_exact_after([&] {
    norm.weight.fill_(1);
    norm.shift.fill_(0.5);
  });
}

// What changes layout changes how an op is computed, so nothing verified before is taken for it.
TEST(Substitutes, AreVerifiedAnewForAnotherLayout) {
  Region region({.policy = "drop_all"});
  const auto step = [&](at::MemoryFormat format) {
    torch::manual_seed(3);
    const auto program = residual_block(at::kFloat, format, 6);
    train(program, in_region(region, program), 2);
    return region.num_plans();
  };
  EXPECT_EQ(step(at::MemoryFormat::Contiguous), 1);
  EXPECT_EQ(step(at::MemoryFormat::ChannelsLast), 2);
}

/// Steps of `body`, each with data of its own, plain and under drop_all; `weight` has the gradient.
/// What the last one replayed.
StepReport expect_same_over_batches(int num_steps, const at::Tensor& weight,
                                    const std::function<at::Tensor(int step)>& body) {
  Region region({.policy = "drop_all"});
  for (int step = 0; step < num_steps; ++step) {
    const auto gradient = [&](const at::Tensor& y) {
      y.sum().backward();
      return std::exchange(weight.mutable_grad(), at::Tensor());
    };
    torch::manual_seed(step);
    const auto plain = gradient(body(step));
    torch::manual_seed(step);
    const auto wrapped = gradient(region.run([&] { return body(step); }));
    EXPECT_TRUE(same_bits(plain, wrapped)) << "step " << step;
  }
  return region.last_step();
}

// Formulas differ in one element of 100,000 there, which the first step's data need not show.
TEST(Substitutes, OfNarrowNormsAreRightForAllBatches) {
  const auto gain = torch::rand({768}).add_(0.5).requires_grad_();
  const auto offset = torch::randn({768});
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto body = [&](int /*step*/) {
      const auto x = torch::randn({4, 768}).to(type);
      const auto y = at::layer_norm(x, {768}, gain, offset);
      return y * y;
    };
    EXPECT_EQ(expect_same_over_batches(300, gain, body).num_substituted_ops, 1) << type;
  }
}

TEST(Substitutes, OfNarrowNormsOfRowsAreFound) {
  const auto gain = torch::rand({16}).add_(0.5).requires_grad_();
  const auto offset = torch::randn({16});
  const auto body = [&](int /*step*/) {
    const auto x = torch::randn({8, 16}).to(at::kBFloat16);
    const auto y = std::get<0>(at::native_batch_norm(x, gain, offset, {}, {}, true, 0.1, 1e-5));
    return y * y;
  };
  EXPECT_EQ(expect_same_over_batches(20, gain, body).num_substituted_ops, 1);
}

// One list of results, not two results.
TEST(Substitutes, AreNotLookedForInLists) {
  const auto weight = torch::ones({4}).requires_grad_();
  const auto body = [&](int /*step*/) {
    const auto made = at::_foreach_exp({weight.detach(), weight.detach() * 2});
    return (torch::layer_norm(weight * made[0] * made[1], {4}) * weight).sin();
  };
  EXPECT_GT(expect_same_over_batches(3, weight, body).num_substituted_ops, 0);
}

TEST(Substitutes, LeaveExpandedParametersAlone) {
  const auto gain = torch::ones({1}).requires_grad_();
  const auto body = [&](int /*step*/) {
    return at::layer_norm(torch::randn({4, 32}), {32}, gain.expand({32}), gain.expand({32})).sin();
  };
  expect_same_over_batches(3, gain, body);
  Region region({.policy = "drop_all"});
  region.run([&] { return body(0); }).sum().backward();
  const auto graph = region.graph();
  EXPECT_TRUE(std::ranges::none_of(graph.ops, &plan::Op::is_part));
}

// The last element, which no vector takes, is one only in the last steps.
TEST(Substitutes, AreNotUsedWhereDenormalsAreFlushed) {
  if (!at::Context::setFlushDenormal(true)) GTEST_SKIP() << "the CPU flushes no denormals";
  const auto weight = torch::ones({9}).requires_grad_();
  const auto ordinary = torch::ones({9}, at::kHalf);
  const auto small = torch::full({9}, 4e-5).to(at::kHalf);
  const auto last = expect_same_over_batches(4, weight, [&](int step) {
    const auto x = (step > 1 ? small : ordinary) * weight.to(at::kHalf);
    return ((x.relu() * 0.5).to(at::kFloat) * 1e5).exp().sin();
  });
  at::Context::setFlushDenormal(false);
  EXPECT_GT(last.num_replayed_ops, 0);
  EXPECT_EQ(last.num_substituted_ops, 0);
}

// LibTorch takes any byte but 0 for true.
TEST(Substitutes, OfMasksTakeAnyByteForTrue) {
  const auto weight = torch::ones({4}).requires_grad_();
  const auto first = torch::tensor({0, 1, 0, 1}, at::kByte).view(at::kBool);
  const auto later = torch::tensor({0, 1, 2, 255}, at::kByte).view(at::kBool);
  const auto last = expect_same_over_batches(
      4, weight, [&](int step) { return (weight.sin() * (step > 1 ? later : first)).exp().sin(); });
  EXPECT_GT(last.num_substituted_ops, 0);
}

TEST(Substitutes, OfNumbersThatOnlyUnsignedOnesHoldAreRight) {
  const auto weight = torch::ones({4}).requires_grad_();
  expect_same_over_batches(4, weight, [&](int step) {
    const std::uint64_t number = step > 1 ? std::uint64_t{1} << 63 : 3;
    const auto factor = torch::full({}, static_cast<std::int64_t>(number)).view(at::kUInt64);
    return ((weight.sin() * factor) * 1e-19).exp().sin();
  });
}

// The window ends as the large value goes, between the mask's memory and its draw. Steps that
// follow a plan have no windows.
TEST(Substitutes, MasksArePackedWhereverWindowsEnd) {
  auto x = torch::randn({1024}).requires_grad_();
  x.mutable_grad() = torch::zeros_like(x);
  Region region({.max_overhead = 0.5, .cost = plan::CostModel::flops});
  for (int step = 0; step < 3; ++step) {
    region
        .run([&] {
          auto large = x.exp();
          const auto small = large.narrow(0, 0, 64).sin();
          auto mask = torch::empty_like(small);
          large.reset();
          mask.bernoulli_(0.5);
          return (small * mask).sum();
        })
        .backward();
    EXPECT_EQ(region.last_step().followed_plan, step > 0) << step;
  }
}

}  // namespace
}  // namespace gradrecomp::test
