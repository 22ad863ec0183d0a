// Kernels that work in no fixed order, of which replays would make other bits.
#include "tape/dispatch/fickle.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>

#include "devices/dropping_steps.h"
#include "devices/on_device.h"
#include "support/host_device/host_device.h"
#include "support/training.h"
#include "tape/calls/may_differ.h"
#include "tape/dispatch/op_traits.h"
#include "tape/op.h"

namespace gradrecomp::test {
namespace {

TEST(Fickle, EveryNameIsOneOfLibTorchs) {
  for (const auto names :
       {tape::operators_without_order(), tape::operators_without_order_of_threads()}) {
    for (const auto name : names) {
      const auto all = c10::Dispatcher::singleton().getAllOpNames();
      EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& op) { return op.name == name; }))
          << name;
    }
  }
}

// Two threads may add to one element in either order, if there is enough to share.
TEST(Fickle, WhatThreadsOfTheCpuAddInNoOrderIsKeptUnlessThereIsOne) {
  const auto index = torch::tensor({0, 2, 0}, torch::kLong);
  const auto replays = [&] {
    return replays_of(
        [&](const at::Tensor& input) {
          return torch::index_put(input.exp(), {index}, input.narrow(0, 0, 3), true).sin();
        },
        torch::randn({6, 4}).requires_grad_());
  };
  const int num_threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto most = replays();
  at::set_num_threads(2);
  EXPECT_LT(replays(), most);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  EXPECT_EQ(replays(), most);
  at::globalContext().setDeterministicAlgorithms(false, false);
  at::set_num_threads(num_threads);
}

TEST(Fickle, WhatAddsInNoOrderIsKeptOnDevicesUnlessAlgorithmsAreDeterministic) {
  const auto index = torch::tensor({0, 2, 0}, torch::kLong);
  const auto replays_on = [&](c10::Device device) {
    const auto x = torch::randn({6, 4}).to(device).requires_grad_();
    return replays_of(
        [rows = index.to(device)](const at::Tensor& input) {
          return torch::index_add(input.exp(), 0, rows, input.narrow(0, 0, 3)).sin();
        },
        x);
  };
  const auto most = replays_on(c10::kCPU);
  EXPECT_LT(replays_on(kHostDevice), most);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  EXPECT_LT(replays_on(kHostDevice), most);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  EXPECT_EQ(replays_on(kHostDevice), most);
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST(Fickle, ConvolutionsAreKeptWhileThreadsMeasureTheirAlgorithms) {
  const auto x = on_device(torch::randn({1, 2, 6, 6})).requires_grad_();
  const auto weight = on_device(torch::randn({3, 2, 3, 3}));
  const auto forward = [&](const at::Tensor& input) {
    return torch::conv2d(input.exp(), weight).sin();
  };
  const auto usually = replays_of(forward, x);
  at::globalContext().setBenchmarkCuDNN(true);
  EXPECT_LT(replays_of(forward, x), usually);
  at::globalContext().setBenchmarkCuDNN(false);
  EXPECT_EQ(replays_of(forward, x), usually);
}

TEST(Fickle, AChangeOfModeBetweenStepsIsPlannedAnew) {
  const auto x = on_device(torch::randn({1, 2, 6, 6})).requires_grad_();
  const auto weight = on_device(torch::randn({3, 2, 3, 3}));
  Steps steps([&](const at::Tensor& input) { return torch::conv2d(input.exp(), weight).sin(); });
  const auto expected = steps.plain(x);
  const auto expect_right_steps = [&] {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(expected, steps.step(x)));
    EXPECT_TRUE(steps.region.last_step().followed_plan);
  };
  expect_right_steps();
  at::globalContext().setBenchmarkCuDNN(true);
  expect_right_steps();
  at::globalContext().setBenchmarkCuDNN(false);
  expect_right_steps();
  EXPECT_EQ(steps.region.num_plans(), 2);
}

// They run backward algorithms, of which some add up in no order.
TEST(Fickle, TransposedConvolutionsAreKept) {
  const auto x = on_device(torch::randn({1, 2, 6, 6})).requires_grad_();
  const auto weight = on_device(torch::randn({2, 3, 3, 3}));
  const auto forward = [&](const at::Tensor& input) {
    return torch::conv_transpose2d(input.exp(), weight).sin();
  };
  const auto usually = replays_of(forward, x);
  at::globalContext().setDeterministicCuDNN(true);
  EXPECT_GT(replays_of(forward, x), usually);
  at::globalContext().setDeterministicCuDNN(false);
}

tape::Op rnn_layer(double dropout, bool train) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_cudnn_rnn", "");
  tape::Op op(tape::traits_of(handle), {});
  static const tape::DispatchState state(tape::NumericMode::current());
  op.dispatch_state = &state;
  for (const auto& argument : handle.schema().arguments()) {
    c10::IValue value;
    if (argument.name() == "dropout") value = dropout;
    if (argument.name() == "train") value = train;
    op.arguments.push_back(value);
  }
  return op;
}

TEST(Fickle, RnnLayersWithDropoutGoOnFromAStateThatNobodySees) {
  const auto differs = [](double dropout, bool train, c10::Device device) {
    const auto op = rnn_layer(dropout, train);
    return tape::may_differ(op.traits->fickle, op, device);
  };
  EXPECT_TRUE(differs(0.5, true, kHostDevice));
  EXPECT_FALSE(differs(0.0, true, kHostDevice));
  EXPECT_FALSE(differs(0.5, false, kHostDevice));
  EXPECT_FALSE(differs(0.5, true, c10::kCPU));
}

}  // namespace
}  // namespace gradrecomp::test
