// Conformance H14: gradients that a custom function takes from what it has saved.
#include <gtest/gtest.h>
#include <torch/torch.h>

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

}  // namespace
}  // namespace gradrecomp::test
