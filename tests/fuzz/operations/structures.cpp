#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/autocast_scope.h"
#include "gradrecomp/checkpoint.h"
#include "gradrecomp/region.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

void checkpoint_next(Machine& machine) {
  machine.run_next_in_checkpoint(machine.dice().between(1, 6));
}

void region_next(Machine& machine) { machine.run_next_in_region(machine.dice().between(1, 8)); }

void stage(Machine& machine) { begin_stage("stage " + std::to_string(machine.dice().below(4))); }

void without_gradient(Machine& machine) {
  const torch::NoGradGuard no_grad;
  const auto x = machine.pick_float(1);
  machine.push(torch::softmax(x, -1) * x.mean());
}

void autocast(Machine& machine) {
  auto& world = machine.world();
  world.casts = true;
  const auto x = machine.pick_shaped({3, machine.sizes().features});
  const AutocastScope scope(machine.dice().chance(0.8) ? Precision::bfloat16 : Precision::half);
  auto y = torch::linear(x, world.weight, world.bias);
  y = torch::layer_norm(torch::gelu(y), {machine.sizes().features}, world.gain, world.bias);
  machine.push(y.mm(world.weight));
}

void autocast_next(Machine& machine) {
  machine.world().casts = true;
  const AutocastScope scope(Precision::bfloat16);
  machine.run_next(machine.dice().between(1, 6));
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

// A backward pass within backward, through a checkpoint made there.
void hook_with_backward(Machine& machine) {
  auto& world = machine.world();
  world.replays_in_backward = true;
  const auto x = machine.pick_float() * 1.1;
  if (!x.requires_grad()) return;
  const bool checkpoints = world.inner_regions != nullptr;
  x.register_hook([checkpoints, weight = world.weight.detach()](const Tensor& gradient) {
    const torch::AutoGradMode with_grad(true);
    const auto w = weight.clone().requires_grad_();
    const auto body = [](const Tensor& y) { return y.tanh().exp().sum(); };
    const auto loss = checkpoints ? checkpoint(body, w) : body(w);
    return gradient * torch::autograd::grad({loss}, {w})[0].mean();
  });
  machine.push(x);
}

void side_stream_next(Machine& machine) {
  machine.run_next_on_side_stream(machine.dice().between(1, 6));
}

}  // namespace

std::vector<Operation> stream_operations() { return {{"side_stream_next", 8, side_stream_next}}; }

std::vector<Operation> structure_operations() {
  return {{"checkpoint_next", 2, checkpoint_next},
          {"region_next", 3, region_next},
          {"stage", 3, stage},
          {"without_gradient", 1, without_gradient},
          {"autocast", 1, autocast},
          {"autocast_next", 1, autocast_next},
          {"repeat_layer", 2, repeat_layer},
          {"hook", 1, hook},
          {"hook_with_backward", 1, hook_with_backward}};
}

}  // namespace gradrecomp::fuzzing
