#include <algorithm>

#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

Tensor some_indices(Machine& machine, std::int64_t size, std::int64_t count) {
  std::vector<std::int64_t> indices(count);
  for (auto& index : indices) index = machine.dice().below(std::max<std::int64_t>(size, 1));
  return torch::tensor(indices, on_device(torch::kLong));
}

void index(Machine& machine) {
  const auto x = machine.pick(1);
  const auto dim = machine.dice().below(x.dim());
  const auto indices = some_indices(machine, x.size(dim), 3);
  switch (machine.dice().below(6)) {
    case 0:
      return machine.push_writable(x.index_select(dim, indices));
    case 1:
      return machine.push_writable(x.index({some_indices(machine, x.size(0), 2)}));
    case 2:
      return machine.push(torch::take_along_dim(x, x.argsort(false, dim), dim));
    case 3:
      return machine.push(x.flip(dim));
    case 4:
      return machine.push(x.roll(1, dim));
    default:
      return machine.push(torch::take(x, some_indices(machine, x.numel(), 4)));
  }
}

void masked(Machine& machine) {
  const auto x = machine.pick(1);
  const auto mask = x.detach() > 0;
  switch (machine.dice().below(4)) {
    case 0:
      return machine.push(x.masked_fill(mask, -0.5));
    case 1:
      return machine.push(x.masked_select(mask));
    case 2:
      return machine.push(x.index({mask}));
    default:
      machine.push(mask);
      return machine.push(x.masked_scatter(mask, machine.pick_like(x)));
  }
}

void gather(Machine& machine) {
  const auto x = machine.pick(1);
  const auto order = x.detach().argsort(false, -1);
  machine.push(order);
  if (machine.dice().chance(0.5)) return machine.push(x.gather(-1, order));
  machine.push(torch::scatter_add(torch::zeros_like(x), -1, order, x));
}

void embedding(Machine& machine) {
  auto& world = machine.world();
  const bool sparse = machine.dice().chance(0.05);
  machine.push_writable(torch::embedding(world.table, world.words, -1, false, sparse));
}

void embedding_bag(Machine& machine) {
  auto& world = machine.world();
  const auto mode = machine.dice().below(3);
  const auto words = world.words.reshape({-1});
  const auto offsets = torch::zeros({1}, on_device(torch::kLong));
  machine.push(std::get<0>(torch::embedding_bag(world.table, words, offsets, false, mode)));
}

void one_hot(Machine& machine) {
  auto& world = machine.world();
  const auto hot = torch::one_hot(world.words, world.sizes.words);
  machine.push(torch::matmul(hot.to(torch::kFloat), world.table));
}

void scatter(Machine& machine) {
  const auto x = machine.pick_shaped({4, machine.sizes().features});
  const auto indices = some_indices(machine, 3, 4).unsqueeze(1).expand_as(x);
  const auto base = machine.pick_shaped({3, machine.sizes().features});
  switch (machine.dice().below(3)) {
    case 0:
      return machine.push(base.scatter_add(0, indices, x));
    case 1:
      return machine.push(base.scatter_reduce(0, indices, x, "amax"));
    default:
      return machine.push(base.index_add(0, some_indices(machine, 3, 4), x));
  }
}

void order(Machine& machine) {
  const auto x = machine.pick(1);
  const auto count = std::min<std::int64_t>(2, x.size(-1));
  switch (machine.dice().below(4)) {
    case 0: {
      const auto [values, indices] = x.topk(count);
      machine.push(values);
      return machine.push(indices);
    }
    case 1:
      return machine.push(std::get<0>(x.sort(-1, true)));
    case 2:
      return machine.push(std::get<0>(x.kthvalue(std::max<std::int64_t>(count, 1))));
    default:
      return machine.push(std::get<0>(x.median(-1)));
  }
}

void route(Machine& machine) {
  const auto& sizes = machine.sizes();
  const auto x = machine.pick_shaped({3, sizes.features});
  const auto [weights, expert] = torch::softmax(x, -1).topk(1);
  auto out = torch::zeros_like(x);
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto rows = (expert.squeeze(-1).remainder(2) == i).nonzero().squeeze(-1);
    if (rows.numel() == 0) continue;
    const auto tokens = x.index_select(0, rows);
    out.index_add_(0, rows, torch::linear(tokens, machine.world().weight) * weights.index({rows}));
  }
  machine.push_writable(out);
}

}  // namespace

std::vector<Operation> index_operations() {
  return {{"index", 5, index},
          {"masked", 3, masked},
          {"gather", 3, gather},
          {"embedding", 3, embedding},
          {"embedding_bag", 1, embedding_bag},
          {"one_hot", 1, one_hot},
          {"scatter", 3, scatter},
          {"order", 3, order},
          {"route", 1, route}};
}

}  // namespace gradrecomp::fuzzing
