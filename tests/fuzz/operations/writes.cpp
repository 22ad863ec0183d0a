#include <algorithm>

#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;
using torch::indexing::Slice;

// Part of a tensor, through a view or a view of a view.
Tensor part_of(Machine& machine, Tensor tensor) {
  for (auto depth = machine.dice().below(3); depth > 0 && tensor.dim() > 0; --depth) {
    const auto dim = machine.dice().below(tensor.dim());
    switch (machine.dice().below(4)) {
      case 0:
        tensor = tensor.slice(dim, 0, tensor.size(dim), 2);
        break;
      case 1:
        tensor = tensor.narrow(dim, 0, (tensor.size(dim) + 1) / 2);
        break;
      case 2:
        tensor = tensor.transpose(0, dim);
        break;
      default:
        tensor = tensor.select(dim, 0);
        break;
    }
  }
  return tensor;
}

void write_in_place(Machine& machine) {
  const auto whole = machine.pick_writable();
  if (!whole.defined()) return;
  auto target = part_of(machine, whole);
  switch (machine.dice().below(14)) {
    case 0:
      target.relu_();
      return machine.freeze(whole);
    case 1:
      target.tanh_();
      return machine.freeze(whole);
    case 2:
      target.sigmoid_();
      return machine.freeze(whole);
    case 3:
      at::silu_(target);
      return;
    case 4:
      target.mul_(0.5);
      return;
    case 5:
      target.add_(machine.pick_like(target), 0.5);
      return;
    case 6:
      target.mul_(machine.pick_like(target).tanh());
      return machine.freeze(whole);
    case 7:
      target.clamp_(-2, 2);
      return machine.freeze(whole);
    case 8:
      target.masked_fill_(machine.pick_like(target) > 0.2, 0.1);
      return;
    case 9:
      target.zero_();
      return;
    case 10:
      target.fill_(machine.world().scale);
      return;
    case 11:
      target.copy_(machine.pick_like(target));
      return;
    case 12:
      torch::dropout_(target, 0.3, true);
      return machine.freeze(whole);
    default:
      target.neg_().sub_(0.1);
      return;
  }
}

// A buffer filled slice by slice, the way hand-written caches and scans do it.
void fill_buffer(Machine& machine) {
  const auto rows = machine.dice().between(2, 4);
  const auto columns = machine.sizes().features;
  const bool uninitialized = machine.dice().chance(0.5);
  auto buffer = uninitialized ? torch::empty({rows, columns}, device())
                              : torch::zeros({rows, columns}, device());
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto source = machine.pick_shaped({columns});
    switch (machine.dice().below(3)) {
      case 0:
        buffer.slice(0, row, row + 1).copy_(source);
        break;
      case 1:
        buffer.index_put_({row}, source);
        break;
      default:
        buffer.select(0, row).copy_(source * 0.5);
        break;
    }
  }
  machine.push_writable(buffer);
}

void scan(Machine& machine) {
  const auto& sizes = machine.sizes();
  const auto x = machine.pick_shaped({sizes.length, sizes.features});
  auto states = torch::zeros({sizes.length + 1, sizes.features}, device());
  for (std::int64_t t = 0; t < sizes.length; ++t) {
    const auto state = torch::tanh(states.select(0, t).clone() + x[t]);
    states =
        states.index_copy(0, torch::full({1}, t + 1, on_device(torch::kLong)), state.unsqueeze(0));
  }
  machine.push(states);
}

void indexed_writes(Machine& machine) {
  const auto base = machine.pick_shaped({4, machine.sizes().features}).clone();
  const auto rows = torch::tensor({2, 0}, on_device(torch::kLong));
  const auto source = machine.pick_shaped({2, machine.sizes().features});
  switch (machine.dice().below(6)) {
    case 0:
      base.index_copy_(0, rows, source);
      break;
    case 1:
      base.index_add_(0, rows, source, 0.5);
      break;
    case 2:
      base.index_fill_(0, rows, 0.25);
      break;
    case 3:
      base.index_put_({rows}, source, true);
      break;
    case 4:
      base.scatter_(0, rows.unsqueeze(1).expand_as(source), source);
      break;
    default:
      base.index_put_({base > 0.1}, machine.world().scale.detach());
      break;
  }
  machine.push_writable(base);
}

// Writes to memory that lives longer than the region, as running statistics and caches do.
void write_outside(Machine& machine) {
  const torch::NoGradGuard no_grad;
  auto& world = machine.world();
  switch (machine.dice().below(4)) {
    case 0:
      world.counter.add_(1);
      return;
    case 1:
      world.memory.mul_(0.9).add_(machine.pick_shaped(world.memory.sizes()), 0.1);
      return;
    case 2:
      world.memory.select(0, 0).copy_(machine.pick_shaped({machine.sizes().features}));
      return;
    default:
      world.running_mean.mul_(0.9);
      return;
  }
}

void read_outside(Machine& machine) {
  const auto& world = machine.world();
  const auto x = machine.pick_shaped(world.memory.sizes());
  machine.push(x * world.memory.clone() + world.counter.to(torch::kFloat) * 0.1);
}

// A kernel that writes past the dispatcher, as code with raw pointers does.
void raw_write(Machine& machine) {
  const auto x = machine.pick_float(1);
  auto mask = torch::empty({x.size(-1)});
  auto* item = mask.data_ptr<float>();
  for (std::int64_t i = 0; i < mask.numel(); ++i) item[i] = 0.1f * static_cast<float>(i % 7);
  mask = mask.to(device());
  if (machine.dice().chance(0.5)) mask.mul_(0.5).add_(0.1);
  machine.push(x * mask);
}

void out_variant(Machine& machine) {
  const torch::NoGradGuard no_grad;
  const auto x = machine.pick_float(1);
  auto out = torch::empty_like(x);
  torch::tanh_out(out, x);
  if (machine.dice().chance(0.3)) torch::mul_out(out, out, x);
  machine.push(out);
}

void grow(Machine& machine) {
  std::vector<Tensor> rows;
  for (auto count = machine.dice().between(2, 4); count > 0; --count) {
    rows.push_back(machine.pick_shaped({machine.sizes().features}));
  }
  machine.push_writable(machine.dice().chance(0.5) ? torch::stack(rows) : torch::cat(rows));
}

}  // namespace

std::vector<Operation> write_operations() {
  return {{"write_in_place", 14, write_in_place},
          {"fill_buffer", 4, fill_buffer},
          {"scan", 1, scan},
          {"indexed_writes", 4, indexed_writes},
          {"write_outside", 3, write_outside},
          {"read_outside", 2, read_outside},
          {"raw_write", 1, raw_write},
          {"out_variant", 1, out_variant},
          {"grow", 4, grow}};
}

}  // namespace gradrecomp::fuzzing
