#include "fuzz/hostile/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;
using torch::autograd::grad;

Tensor layer(const Tensor& x, const Tensor& weight) { return torch::tanh(x.mm(weight)).exp(); }

Tensor rows(Machine& machine) { return machine.pick_shaped({2, machine.sizes().features}); }

// Replays happen while the step is still being recorded, so no plan foresees the peak.
World& with_backward_inside(Machine& machine) {
  machine.world().replays_in_backward = true;
  return machine.world();
}

void penalty_inside(Machine& machine) {
  auto& world = with_backward_inside(machine);
  const auto x = rows(machine).detach().requires_grad_();
  const auto y = layer(x, world.weight);
  const auto slope = grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  machine.push(y + slope.pow(2).sum());
}

// A step of descent on other weights, through which the outer gradient goes.
void step_inside(Machine& machine) {
  auto& world = with_backward_inside(machine);
  const auto x = rows(machine);
  const bool with_graph = machine.dice().chance(0.6);
  const auto slope = grad({layer(x, world.weight).mean()}, {world.weight}, {}, true, with_graph)[0];
  machine.push(layer(x, world.weight - slope * 0.1));
}

void backward_inside(Machine& machine) {
  auto& world = with_backward_inside(machine);
  const auto leaf = rows(machine).detach().requires_grad_();
  layer(leaf, world.weight.detach()).sum().backward();
  machine.push(leaf.grad() * rows(machine));
}

// From what steps before have made.
void gradient_so_far(Machine& machine) {
  auto& world = with_backward_inside(machine);
  const auto x = machine.pick_float();
  if (!x.requires_grad()) return;
  const auto slope = grad({x.sum()}, {world.weight}, {}, true, false, /*allow_unused=*/true)[0];
  if (slope.defined()) machine.push(torch::tanh(slope) * world.weight);
}

}  // namespace

std::vector<Operation> inner_backward_operations() {
  return {{"penalty_inside", 1, penalty_inside},
          {"step_inside", 1, step_inside},
          {"backward_inside", 1, backward_inside},
          {"gradient_so_far", 1, gradient_so_far}};
}

}  // namespace gradrecomp::fuzzing
