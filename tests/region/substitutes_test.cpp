// Ops that are replayed by other kernels than they ran by.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gradrecomp/region/region.h"
#include "support/training.h"

namespace gradrecomp::test {
namespace {

namespace nn = torch::nn;
using Tensors = std::vector<at::Tensor>;

/// What the last of three steps replayed under `options`; each step equal to the plain one.
StepReport replays_of(const std::function<Program()>& make, Options options) {
  torch::manual_seed(1);
  const auto plain_program = make();
  const auto plain = train(plain_program, plain_program.forward, 3);
  torch::manual_seed(1);
  const auto program = make();
  Region region(std::move(options));
  const auto wrapped = train(
      program,
      [&](const Tensors& inputs) { return region.run([&] { return program.forward(inputs); }); },
      3);
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

// What changes layout changes how an op is computed, so nothing verified before is taken for it.
TEST(Substitutes, AreVerifiedAnewForAnotherLayout) {
  Region region({.policy = "drop_all"});
  const auto step = [&](at::MemoryFormat format) {
    torch::manual_seed(3);
    const auto program = residual_block(at::kFloat, format, 6);
    train(
        program,
        [&](const Tensors& inputs) { return region.run([&] { return program.forward(inputs); }); },
        2);
    return region.num_plans();
  };
  EXPECT_EQ(step(at::MemoryFormat::Contiguous), 1);
  EXPECT_EQ(step(at::MemoryFormat::ChannelsLast), 2);
}

}  // namespace
}  // namespace gradrecomp::test
