#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

void drop_out(Machine& machine) {
  const auto x = machine.pick();
  switch (machine.dice().below(4)) {
    case 0:
      return machine.push(torch::dropout(x, 0.3, true));
    case 1:
      return machine.push(torch::alpha_dropout(x, 0.2, true));
    case 2:
      return machine.push(x.dim() >= 2 ? torch::feature_dropout(x, 0.4, true)
                                       : torch::dropout(x, 0.0, true));
    default:
      return machine.push(torch::dropout(x, 0.5, machine.dice().chance(0.8)));
  }
}

void noise(Machine& machine) {
  const auto x = machine.pick();
  auto generator = machine.world().generator;
  switch (machine.dice().below(8)) {
    case 0:
      return machine.push(x * torch::rand_like(x));
    case 1:
      return machine.push_writable(x + torch::randn_like(x) * 0.1);
    case 2:
      return machine.push(x * torch::empty_like(x.detach()).bernoulli_(0.5, generator));
    case 3:
      return machine.push(x * torch::empty_like(x.detach()).uniform_(-1, 1, generator));
    case 4:
      return machine.push(x * torch::zeros_like(x.detach()).normal_(0, 1, generator));
    case 5:
      return machine.push(x * torch::bernoulli(torch::full_like(x, 0.5), generator));
    case 6:
      return machine.push(torch::rrelu(x, 0.1, 0.3, true));
    default:
      return machine.push(x * torch::empty_like(x.detach()).bernoulli_(0.7));
  }
}

void random_choice(Machine& machine) {
  const auto x = machine.pick_float(1);
  if (machine.dice().chance(0.5)) {
    return machine.push(x.index_select(0, torch::randperm(x.size(0), on_device(torch::kLong))));
  }
  const auto chosen = x.detach().reshape({-1}).softmax(0).multinomial(1);
  machine.push(x.reshape({-1}).index_select(0, chosen));
}

}  // namespace

std::vector<Operation> random_operations() {
  return {{"drop_out", 6, drop_out}, {"noise", 5, noise}, {"random_choice", 1, random_choice}};
}

}  // namespace gradrecomp::fuzzing
