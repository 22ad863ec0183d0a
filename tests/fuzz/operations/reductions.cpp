#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

void reduce(Machine& machine) {
  const auto x = machine.pick(1);
  const auto dim = machine.dice().below(x.dim());
  const bool keep = machine.dice().chance(0.5);
  switch (machine.dice().below(12)) {
    case 0:
      return machine.push_writable(x.sum(dim, keep) * 0.3);
    case 1:
      return machine.push_writable(x.mean(dim, keep));
    case 2:
      return machine.push(x.amax(dim, keep));
    case 3:
      return machine.push(x.tanh().var(dim, false, keep));
    case 4:
      return machine.push((x.tanh().var(dim, false, keep) + 0.1).sqrt());
    case 5:
      return machine.push(torch::logsumexp(x, dim, keep));
    case 6:
      return machine.push(x.norm(2, dim, keep));
    case 7:
      return machine.push(x.tanh().prod(dim, keep));
    case 8:
      return machine.push(x.sum());
    case 9:
      return machine.push(x.mean());
    case 10:
      return machine.push(x.amin(dim, keep));
    default:
      return machine.push(torch::linalg_vector_norm(x, 2, at::IntArrayRef{dim}, keep));
  }
}

void extremes(Machine& machine) {
  const auto x = machine.pick(1);
  const auto dim = machine.dice().below(x.dim());
  const auto [values, indices] =
      machine.dice().chance(0.5) ? torch::max(x, dim) : torch::min(x, dim);
  machine.push(values);
  machine.push(indices);
}

void accumulate(Machine& machine) {
  const auto x = machine.pick(1);
  const auto dim = machine.dice().below(x.dim());
  switch (machine.dice().below(4)) {
    case 0:
      return machine.push_writable(x.cumsum(dim) * 0.5);
    case 1:
      return machine.push(x.tanh().cumprod(dim));
    case 2:
      return machine.push(torch::logcumsumexp(x, dim));
    default:
      return machine.push(std::get<0>(x.cummax(dim)));
  }
}

void soften(Machine& machine) {
  const auto x = machine.pick(1);
  const auto dim = machine.dice().below(x.dim());
  switch (machine.dice().below(3)) {
    case 0:
      return machine.push(torch::softmax(x, dim));
    case 1:
      return machine.push(torch::log_softmax(x, dim));
    default:
      return machine.push(torch::softmax(x, dim, torch::kDouble));
  }
}

void lose(Machine& machine) {
  const auto& sizes = machine.sizes();
  const auto x = machine.pick_shaped({3, sizes.features});
  const auto target = torch::arange(3, on_device(torch::kLong)).remainder(sizes.features);
  const auto other = machine.pick_like(x).detach();
  switch (machine.dice().below(6)) {
    case 0:
      return machine.push(torch::cross_entropy_loss(x, target));
    case 1:
      return machine.push(torch::mse_loss(x, other));
    case 2:
      return machine.push(torch::smooth_l1_loss(x, other));
    case 3:
      return machine.push(torch::binary_cross_entropy_with_logits(x, other.sigmoid()));
    case 4:
      return machine.push(torch::nll_loss(torch::log_softmax(x, 1), target));
    default:
      return machine.push(torch::kl_div(torch::log_softmax(x, 1), other.softmax(1)));
  }
}

}  // namespace

std::vector<Operation> reduction_operations() {
  return {{"reduce", 8, reduce},
          {"extremes", 2, extremes},
          {"accumulate", 3, accumulate},
          {"soften", 5, soften},
          {"lose", 2, lose}};
}

}  // namespace gradrecomp::fuzzing
