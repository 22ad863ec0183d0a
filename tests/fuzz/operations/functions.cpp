#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A user's function that saves an input, an output and a tensor of its own.
struct Gated : torch::autograd::Function<Gated> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double factor) {
    const auto gate = torch::sigmoid(x * factor);
    const auto out = x * gate;
    context->save_for_backward({x, gate, out});
    context->saved_data["factor"] = factor;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const double factor = context->saved_data["factor"].toDouble();
    const auto slope = saved[1] + factor * saved[2] * (1 - saved[1]);
    return {gradients[0] * slope, Tensor()};
  }
};

struct HalvedInPlace : torch::autograd::Function<HalvedInPlace> {
  static Tensor forward(AutogradContext* context, Tensor x) {
    x.mul_(0.5);
    context->mark_dirty({x});
    return x;
  }
  static variable_list backward(AutogradContext* /*context*/, variable_list gradients) {
    return {gradients[0] * 0.5};
  }
};

// Two outputs, one of them without a gradient, and a tensor held past autograd's own saving.
struct Ranked : torch::autograd::Function<Ranked> {
  static variable_list forward(AutogradContext* context, const Tensor& x) {
    const Tensor order = x.argsort(-1, false);
    const auto sorted = x.gather(-1, order);
    context->saved_data["order"] = order;
    context->mark_non_differentiable({order});
    return {sorted, order};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto order = context->saved_data["order"].toTensor();
    return {torch::zeros_like(gradients[0]).scatter(-1, order, gradients[0])};
  }
};

// Checkpointing by hand: the second forward pass and its backward run within backward.
struct RunAgain : torch::autograd::Function<RunAgain> {
  static Tensor inside(const Tensor& x) { return torch::tanh(x * x + 0.3).exp(); }
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return inside(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const torch::AutoGradMode with_grad(true);
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    return {torch::autograd::grad({inside(x)}, {x}, {gradients[0].detach()})[0]};
  }
};

void user_function(Machine& machine) {
  switch (machine.dice().below(6)) {
    case 0:
      return machine.push(HalvedInPlace::apply(machine.pick_float() + 0.1));
    case 1: {
      const auto ranked = Ranked::apply(machine.pick_float(1));
      machine.push(ranked[1]);
      return machine.push(ranked[0]);
    }
    case 2:
      return machine.push(RunAgain::apply(machine.pick_float()));
    default:
      return machine.push(Gated::apply(machine.pick_float(), 0.7));
  }
}

}  // namespace

std::vector<Operation> function_operations() { return {{"user_function", 4, user_function}}; }

}  // namespace gradrecomp::fuzzing
