// Conformance H1: memory of the program's that tensors borrow.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gradrecomp/region.h"
#include "hazards/layer_steps.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

void churn() {
  std::vector<std::vector<float>> rubbish;
  for (int i = 0; i < 64; ++i) rubbish.emplace_back(4096, 1e6F);
}

std::vector<float> weights_of(std::int64_t count, int step) {
  std::vector<float> weights(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = 0.5F + 0.001F * static_cast<float>((i * (step + 1)) % 7);
  }
  return weights;
}

TEST(BorrowedMemory, H1MayDieAsSoonAsItHasBeenCopied) {
  // The larger vector goes back to the system, so that reading it again would crash.
  for (const std::int64_t width : {16, 512}) {
    expect_same_in_every_mode(steps_of(width, [](Layers& layers, const at::Tensor& x, int step) {
      at::Tensor weights;
      {
        auto numbers = weights_of(x.numel(), step);
        weights = torch::from_blob(numbers.data(), x.sizes()).clone();
      }
      churn();
      return layers.b(torch::tanh(layers.a(x)) * weights);
    }));
  }
}

TEST(BorrowedMemory, H1MayBeFilledAgainForTheNextBatch) {
  std::vector<double> buffer(16 * 16);
  const auto body = [&](Layers& layers, const at::Tensor& x, int step) {
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<double>(i % (step + 3));
    const auto numbers = torch::from_blob(buffer.data(), {16, 16}, torch::kDouble);
    return layers.b(torch::tanh(layers.a(x)) * numbers.to(torch::kFloat).sin());
  };
  const auto refill = [&](Layers&, at::Tensor&) { std::ranges::fill(buffer, 1e9); };
  expect_same_in_every_mode(steps_of(16, body, refill));
}

TEST(BorrowedMemory, H1WithADeleterThatDoesNothingMayDieToo) {
  expect_same_in_every_mode(steps_of(64, [](Layers& layers, const at::Tensor& x, int step) {
    at::Tensor weights;
    {
      auto numbers = weights_of(x.numel(), step);
      weights = torch::from_blob(numbers.data(), x.sizes(), [](void*) {}).exp();
    }
    churn();
    return layers.b(torch::tanh(layers.a(x)) * weights);
  }));
}

TEST(BorrowedMemory, H1WeightsInItAreReplayedFrom) {
  std::vector<float> numbers(64 * 64, 0.125F);
  auto weight = torch::from_blob(numbers.data(), {64, 64}).requires_grad_();
  const auto x = torch::randn({8, 64});
  Region region({.policy = "drop_all"});
  for (int step = 0; step < 3; ++step) {
    region.run([&] { return x.mm(weight).tanh().exp().sin(); }).sum().backward();
  }
  EXPECT_GT(region.last_step().num_replayed_ops, 0);
}

// From borrowed memory nothing is made again, so a step that reads it has other ops than one that
// does not: normalisations are recorded whole.
TEST(BorrowedMemory, H1InSomeStepsAloneLeavesOthersRight) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    SCOPED_TRACE(c10::toString(type));
    std::vector<float> buffer(32 * 64);
    const auto program = [&](const RunPart& run) {
      auto weight = (torch::randn({64, 64}) * 0.1).to(type).requires_grad_();
      auto gain = torch::randn({64}).to(type).requires_grad_();
      auto bias = torch::randn({64}).to(type).requires_grad_();
      Tensors all;
      for (int step = 0; step < kNumSteps; ++step) {
        auto x = torch::randn({32, 64});
        if (step == 0) {
          std::memcpy(buffer.data(), x.data_ptr(), x.nbytes());
          x = torch::from_blob(buffer.data(), {32, 64});
        }
        const auto y = run([&] {
          const auto h = torch::layer_norm(x, {64}).to(type).mm(weight);
          return torch::relu(torch::layer_norm(h, {64}, gain, bias))
              .mul(0.3)
              .add(0.7)
              .mm(weight)
              .sin();
        });
        y.sum().backward();
        for (auto* parameter : {&weight, &gain, &bias}) {
          all.push_back(std::exchange(parameter->mutable_grad(), at::Tensor()));
        }
      }
      return all;
    };
    expect_same_in_every_mode(program);
  }
}

}  // namespace
}  // namespace gradrecomp::test
