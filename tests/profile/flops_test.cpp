#include "profile/flops.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tape/record/recorder.h"

namespace gradrecomp::profile {
namespace {

namespace F = torch::nn::functional;

// Sum over the ops that `body` records.
Flops flops_in(const std::function<void()>& body) {
  auto tape = std::make_shared<tape::Tape>();
  {
    const tape::Recorder recorder(tape);
    body();
  }
  Flops sum;
  for (const auto& op : tape->ops()) {
    const Flops flops = flops_of(op, *tape);
    sum.forward += flops.forward;
    sum.backward += flops.backward;
  }
  return sum;
}

at::Tensor leaf(std::vector<std::int64_t> sizes) { return torch::randn(sizes).requires_grad_(); }

TEST(Flops, MatrixProductsCountTwoPerMultiplyAdd) {
  const auto a = leaf({3, 4});
  const auto b = leaf({4, 5});
  EXPECT_EQ(flops_in([&] { a.mm(b); }), (Flops{120, 240}));
  EXPECT_EQ(flops_in([&] { torch::addmm(leaf({5}), a, b); }), (Flops{120, 240}));
  EXPECT_EQ(flops_in([&] { torch::bmm(leaf({2, 3, 4}), leaf({2, 4, 5})); }), (Flops{240, 480}));
}

TEST(Flops, LinearOnBatchesOfRows) {
  EXPECT_EQ(flops_in([] {
              F::linear(leaf({2, 3, 4}), leaf({5, 4}), leaf({5}));
            }),
            (Flops{240, 480}));
}

TEST(Flops, OperandWithoutGradientHalvesBackward) {
  EXPECT_EQ(flops_in([] { torch::randn({3, 4}).mm(leaf({4, 5})); }), (Flops{120, 120}));
}

TEST(Flops, ConvolutionWithStrideAndGroups) {
  // Output [2, 6, 4, 4]; each element meets 4 / 2 channels of a 3 x 3 filter.
  const auto options = F::Conv2dFuncOptions().stride(2).padding(1).groups(2);
  const double forward = 2.0 * (2 * 6 * 4 * 4) * (2 * 9);
  EXPECT_EQ(flops_in([&] {
              F::conv2d(leaf({2, 4, 8, 8}), leaf({6, 2, 3, 3}), options);
            }),
            (Flops{forward, 2 * forward}));
}

TEST(Flops, TransposedConvolutionCountsInputElements) {
  const double forward = 2.0 * (1 * 4 * 5 * 5) * (6 * 9);
  EXPECT_EQ(flops_in([&] {
              F::conv_transpose2d(leaf({1, 4, 5, 5}), leaf({4, 6, 3, 3}));
            }).forward,
            forward);
}

TEST(Flops, AttentionCountsScoresAndWeightedSum) {
  const auto q = leaf({2, 3, 5, 8});
  const auto k = leaf({2, 3, 7, 8});
  const double forward = 2.0 * 2 * (2 * 3 * 5 * 7 * 8);
  EXPECT_EQ(flops_in([&] { at::scaled_dot_product_attention(q, k, k); }).forward, forward);
}

TEST(Flops, PointwiseOpsCountNothingButMoveBytes) {
  const auto x = leaf({8});
  auto tape = std::make_shared<tape::Tape>();
  {
    const tape::Recorder recorder(tape);
    x.exp();
  }
  ASSERT_EQ(tape->ops().size(), 1U);
  EXPECT_EQ(flops_of(tape->ops()[0], *tape), Flops{});
  EXPECT_EQ(bytes_moved_by(tape->ops()[0], *tape), 64);
}

}  // namespace
}  // namespace gradrecomp::profile
