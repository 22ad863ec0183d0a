#include <cmath>

#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

// What the program learns of a tensor's values, as `if (loss.item() > 0)` does.
double number_of(const Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.to(torch::kDouble).mean().item<double>();
}

// A whole number in [0, n) that the values decide.
std::int64_t choice_of(const Tensor& tensor, std::int64_t n) {
  const double number = std::fabs(number_of(tensor)) * 17;
  return std::isfinite(number) ? static_cast<std::int64_t>(std::fmod(number, n)) : 0;
}

void branch_on_data(Machine& machine) {
  const auto x = machine.pick_float();
  if (number_of(x) > 0) return machine.push(torch::tanh(x * 1.5));
  auto y = x.exp();
  y = y / (1 + y);
  machine.push_writable(y * 0.9);
}

void skip_on_data(Machine& machine) { machine.skip_next(choice_of(machine.pick(), 4)); }

void loop_on_data(Machine& machine) {
  auto& world = machine.world();
  auto x = machine.pick_shaped({2, machine.sizes().features});
  for (auto times = choice_of(x, 4); times > 0; --times) {
    x = torch::tanh(torch::linear(x, world.weight, world.bias)) + x * 0.5;
  }
  machine.push(x);
}

// Goes on until the values say so, as solvers and samplers do.
void loop_until_small(Machine& machine) {
  auto x = machine.pick_float();
  for (int times = 0; times < 5 && x.numel() > 0; ++times) {
    if (!x.detach().abs().max().gt(0.4).item<bool>()) break;
    x = x * torch::sigmoid(-x.abs());
  }
  machine.push(x);
}

// Some rows, as many as the values say: shapes that depend on data.
void cut_on_data(Machine& machine) {
  const auto x = machine.pick_float(1);
  if (x.size(0) == 0) return;
  const auto rows = 1 + choice_of(x, x.size(0));
  machine.push(x.narrow(0, 0, rows).exp().clamp_max(4.0));
}

}  // namespace

std::vector<Operation> control_flow_operations() {
  return {{"branch_on_data", 2, branch_on_data},
          {"skip_on_data", 1, skip_on_data},
          {"loop_on_data", 2, loop_on_data},
          {"loop_until_small", 1, loop_until_small},
          {"cut_on_data", 1, cut_on_data}};
}

}  // namespace gradrecomp::fuzzing
