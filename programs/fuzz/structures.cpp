#include <ATen/autocast_mode.h>

#include "gradrecomp/region/region.h"
#include "machine.h"
#include "operations.h"

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

void user_function(Machine& machine) {
  if (machine.dice().chance(0.7)) return machine.push(Gated::apply(machine.pick_float(), 0.7));
  machine.push(HalvedInPlace::apply(machine.pick_float() + 0.1));
}

void checkpoint_next(Machine& machine) {
  machine.run_next_in_checkpoint(machine.dice().between(1, 6));
}

void stage(Machine& machine) { begin_stage("stage " + std::to_string(machine.dice().below(4))); }

void without_gradient(Machine& machine) {
  const torch::NoGradGuard no_grad;
  const auto x = machine.pick_float(1);
  machine.push(torch::softmax(x, -1) * x.mean());
}

void autocast(Machine& machine) {
  auto& world = machine.world();
  const auto x = machine.pick_shaped({3, machine.sizes().features});
  const bool before = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::increment_nesting();
  auto y = torch::linear(x, world.weight, world.bias);
  y = torch::layer_norm(torch::gelu(y), {machine.sizes().features}, world.gain, world.bias);
  y = y.mm(world.weight);
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, before);
  machine.push(y);
}

// The same small network several times over, as in unrolled loops and shared layers.
void repeat_layer(Machine& machine) {
  auto& world = machine.world();
  auto x = machine.pick_shaped({3, machine.sizes().features});
  for (auto times = machine.dice().between(2, 5); times > 0; --times) {
    x = x + torch::dropout(torch::linear(x, world.weight, world.bias).relu_(), 0.1, true);
    x = torch::layer_norm(x, {machine.sizes().features}, world.gain, world.bias);
  }
  machine.push_writable(x);
}

void hook(Machine& machine) {
  const auto x = machine.pick_float() * 1.1;
  if (x.requires_grad()) x.register_hook([](const Tensor& gradient) { return gradient * 0.9; });
  machine.push(x);
}

}  // namespace

std::vector<Operation> structure_operations() {
  return {{"user_function", 2, user_function},
          {"checkpoint_next", 2, checkpoint_next},
          {"stage", 3, stage},
          {"without_gradient", 1, without_gradient},
          {"autocast", 1, autocast},
          {"repeat_layer", 2, repeat_layer},
          {"hook", 1, hook}};
}

}  // namespace gradrecomp::fuzzing
