// Conformance H14: gradients that a custom function takes from what it has saved.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/torch.h>

#include <functional>
#include <memory>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"
#include "support/modes.h"

namespace gradrecomp::test {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// sum(x * saved), with the saved tensor itself as the gradient of x.
struct ReturnSaved : torch::autograd::Function<ReturnSaved> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& saved) {
    context->save_for_backward({saved});
    return (x * saved).sum();
  }
  static variable_list backward(AutogradContext* context, const variable_list& /*gradients*/) {
    return {context->get_saved_variables()[0], at::Tensor()};
  }
};

at::Tensor leaf() { return torch::randn({12, 12}).requires_grad_(); }

TEST(ReturnedGradients, H14ThatAreAParameterLeaveItAlone) {
  expect_same_in_every_mode([](const RunPart& run) -> Tensors {
    const auto x = leaf();
    const auto weight = leaf();
    run([&] { return ReturnSaved::apply(x, weight) + weight.sin().sum(); }).backward();
    x.mutable_grad().zero_();
    return {weight.detach(), gradient_of(weight)};
  });
}

TEST(ReturnedGradients, H14ThatTheProgramHoldsLeaveItAlone) {
  expect_same_in_every_mode([](const RunPart& run) -> Tensors {
    const auto x = leaf();
    const auto weight = leaf();
    at::Tensor held;
    run([&] {
      held = weight.exp();
      return ReturnSaved::apply(x, held);
    }).backward();
    x.mutable_grad().zero_();
    return {held.detach(), gradient_of(x)};
  });
}

TEST(ReturnedGradients, H14ThatALaterPassReadsLeaveItAlone) {
  expect_same_in_every_mode([](const RunPart& run) -> Tensors {
    const auto x = leaf();
    const auto weight = leaf();
    at::Tensor other;
    const auto loss = run([&] {
      const auto h = weight.exp();
      other = (h * h).sum();
      return ReturnSaved::apply(x, h);
    });
    loss.backward({}, /*retain_graph=*/true);
    x.mutable_grad().zero_();
    other.backward({}, /*retain_graph=*/true);
    loss.backward();
    return {gradient_of(x), gradient_of(weight)};
  });
}

// Which nodes of its own have saved: the graph of the first is gone.
TEST(ReturnedGradients, H14ThatAnotherGraphReadsLeaveItAlone) {
  expect_same_in_every_mode([](const RunPart& run) -> Tensors {
    const auto x = leaf();
    const auto weight = leaf();
    at::Tensor other;
    run([&] {
      const auto h = weight + 1;
      other = (h * h).sum();
      return ReturnSaved::apply(x, h);
    }).backward();
    x.mutable_grad().zero_();
    other.backward();
    return {gradient_of(x), gradient_of(weight)};
  });
}

/// sum((x + y) * saved), with the saved tensor as the gradient of both.
struct ReturnSavedTwice : torch::autograd::Function<ReturnSavedTwice> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y,
                            const at::Tensor& saved) {
    context->save_for_backward({saved});
    return ((x + y) * saved).sum();
  }
  static variable_list backward(AutogradContext* context, const variable_list& /*gradients*/) {
    return {context->get_saved_variables()[0], context->get_saved_variables()[0], at::Tensor()};
  }
};

TEST(ReturnedGradients, H14OfTwoLeavesAreNotOneMemory) {
  expect_same_in_every_mode([](const RunPart& run) -> Tensors {
    const auto x = leaf();
    const auto y = leaf();
    const auto weight = leaf();
    for (int step = 0; step < 3; ++step) {
      run([&] { return ReturnSavedTwice::apply(x, y, weight.mm(weight)); }).backward();
    }
    return {gradient_of(x), gradient_of(y), gradient_of(weight)};
  });
}

TEST(ReturnedGradients, H14OfTwoRegionsAreNotOneMemory) {
  expect_same_in_every_mode([](const std::function<RunPart()>& make) -> Tensors {
    const auto x = leaf();
    const auto y = leaf();
    const auto weight = leaf();
    const RunPart one = make();
    const RunPart other = make();
    for (int step = 0; step < 3; ++step) {
      auto h = weight.mm(weight);
      const auto loss = one([&] { return ReturnSaved::apply(x, h); }) +
                        other([&] { return ReturnSaved::apply(y, h); });
      h = at::Tensor();
      loss.backward();
    }
    return {gradient_of(x), gradient_of(y)};
  });
}

TEST(ReturnedGradients, H14ThatTheProgramTookFromAnEarlierPassLeaveItAlone) {
  expect_same_in_every_mode([](const RunPart& run) -> Tensors {
    const auto x = leaf();
    const auto weight = leaf();
    const auto loss = run([&] { return ReturnSaved::apply(x, weight.mm(weight)); });
    const auto taken = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true)[0];
    loss.backward();
    x.mutable_grad().mul_(0.5);
    return {taken, gradient_of(x)};
  });
}

// Of a node of LibTorch's, whose hook unpacks on its own.
TEST(ReturnedGradients, H14OfAHookLeaveItAlone) {
  for (const bool is_own_result : {false, true}) {
    SCOPED_TRACE(is_own_result);
    expect_same_in_every_mode([&](const RunPart& run) -> Tensors {
      const auto x = leaf();
      const auto weight = leaf();
      at::Tensor h;
      run([&] {
        h = x + 1;
        const auto saved = std::make_shared<torch::autograd::SavedVariable>(
            is_own_result ? h : weight, /*is_output=*/false);
        h.register_hook([saved](const at::Tensor&) { return saved->unpack(); });
        return h.sum();
      }).backward();
      x.mutable_grad().zero_();
      return {weight.detach(), h.detach()};
    });
  }
}

// What is held hangs on the graph, and the graph on the tape that holds it.
TEST(ReturnedGradients, H14LeaveNothingBehind) {
  install_cpu_counter();
  const auto x = leaf();
  const auto weight = leaf();
  Region region({.policy = "drop_all"});
  const auto step = [&] {
    const auto loss = region.run([&] {
      const auto h = weight.exp();
      return ReturnSaved::apply(x, h) + (h * h).sum();
    });
    const auto first = torch::autograd::grad({loss}, {x, weight}, {}, /*retain_graph=*/true,
                                             /*create_graph=*/true);
    (first[0].sum() + first[1].sum()).backward({}, /*retain_graph=*/true);
    loss.backward();
  };
  step();
  const MemoryMeter meter(c10::kCPU);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(meter.growth_bytes(), 0);
}

}  // namespace
}  // namespace gradrecomp::test
