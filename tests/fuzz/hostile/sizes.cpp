#include "fuzz/hostile/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

// Makes of `x` what has its shape, in memory that was too small at first.
Tensor grown(Machine& machine, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  auto made = torch::zeros({1 + x.numel() / 2});
  made.resize_(x.sizes());
  switch (machine.dice().below(3)) {
    case 0:
      return made.copy_(x);
    case 1:
      return made.fill_(0.5);
    default:
      return torch::tanh_out(made, x);
  }
}

void into_nothing(Machine& machine) {
  const auto x = machine.pick_float();
  auto made = torch::empty({0});
  {
    const torch::NoGradGuard no_grad;
    switch (machine.dice().below(4)) {
      case 0:
        at::mul_out(made, x, x);
        break;
      case 1:
        at::cat_out(made, {x.reshape({-1}), x.reshape({-1})});
        break;
      case 2:
        at::sum_out(made, x, at::IntArrayRef{}, false);
        break;
      default:
        at::add_out(made, x, x);
        at::exp_out(made, made);
        break;
    }
  }
  machine.push(machine.dice().chance(0.5) && made.sizes() == x.sizes() ? x * made : made);
}

void resized(Machine& machine) {
  const auto x = machine.pick_float();
  machine.push((x * grown(machine, x)).sin());
}

// Keeps what it had and gets more.
void extended(Machine& machine) {
  const auto x = machine.pick_shaped({4, machine.sizes().features});
  auto made = x.detach().slice(0, 0, 2).clone();
  {
    const torch::NoGradGuard no_grad;
    made.resize_(x.sizes());
    made.slice(0, 2).copy_(x.slice(0, 2));
  }
  machine.push((x * made).sin());
}

void shrunk(Machine& machine) {
  const auto x = machine.pick_shaped({3, machine.sizes().features});
  auto made = x.detach().exp();
  made.resize_({2, machine.sizes().features});
  machine.push(x.slice(0, 0, 2) * made);
}

void resized_like(Machine& machine) {
  const auto x = machine.pick_float(1).contiguous();
  auto made = machine.dice().chance(0.5) ? torch::rand({2}) : torch::rand({2 * x.numel() + 1});
  {
    const torch::NoGradGuard no_grad;
    made.resize_as_(x).copy_(x.detach() * 0.5);
  }
  machine.push(x * made.cos());
}

}  // namespace

std::vector<Operation> resizing_operations() {
  return {{"into_nothing", 3, into_nothing},
          {"resized", 2, resized},
          {"extended", 1, extended},
          {"shrunk", 1, shrunk},
          {"resized_like", 1, resized_like}};
}

}  // namespace gradrecomp::fuzzing
