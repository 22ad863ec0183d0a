#include <algorithm>
#include <numeric>

#include "fuzz/operations/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

std::int64_t some_dim(Machine& machine, const Tensor& tensor) {
  return machine.dice().below(std::max<std::int64_t>(tensor.dim(), 1));
}

Tensor sliced(Machine& machine, const Tensor& tensor) {
  const auto dim = some_dim(machine, tensor);
  const auto size = tensor.size(dim);
  const auto start = machine.dice().below(std::max<std::int64_t>(size, 1));
  return tensor.slice(dim, start, size, machine.dice().between(1, 2));
}

Tensor permuted(Machine& machine, const Tensor& tensor) {
  std::vector<std::int64_t> order(tensor.dim());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + machine.dice().below(tensor.dim()), order.end());
  return tensor.permute(order);
}

Tensor one_view(Machine& machine, const Tensor& tensor) {
  const auto dim = some_dim(machine, tensor);
  switch (machine.dice().below(14)) {
    case 0:
      return tensor.transpose(0, -1);
    case 1:
      return tensor.unsqueeze(dim);
    case 2:
      return tensor.squeeze();
    case 3:
      return permuted(machine, tensor);
    case 4:
      return sliced(machine, tensor);
    case 5:
      return tensor.narrow(dim, 0, (tensor.size(dim) + 1) / 2);
    case 6:
      return tensor.select(dim, tensor.size(dim) - 1);
    case 7:
      return tensor.unsqueeze(0).expand([&] {
        auto shape = tensor.sizes().vec();
        shape.insert(shape.begin(), 2);
        return shape;
      }());
    case 8:
      return tensor.diagonal(0, 0, -1);
    case 9:
      return tensor.unfold(dim, std::min<std::int64_t>(2, tensor.size(dim)), 1);
    case 10:
      return tensor.movedim(0, -1);
    case 11:
      return tensor.view(tensor.sizes());
    case 12:
      return tensor.alias();
    default:
      return tensor.is_contiguous() ? tensor.view({-1}) : tensor.flatten();
  }
}

void view(Machine& machine) { machine.push(one_view(machine, machine.pick_for_view(1))); }

void view_of_view(Machine& machine) {
  const auto first = one_view(machine, machine.pick_for_view(2));
  machine.push(first.dim() > 0 ? one_view(machine, first) : first);
}

void parts(Machine& machine) {
  const auto tensor = machine.pick(1);  // views of which autograd allows no in-place write
  const auto dim = some_dim(machine, tensor);
  std::vector<Tensor> views;
  switch (machine.dice().below(3)) {
    case 0:
      views = tensor.chunk(2, dim);
      break;
    case 1:
      views = tensor.split(1, dim);
      break;
    default:
      views = tensor.unbind(dim);
      break;
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(views.size(), 3); ++i) machine.push(views[i]);
}

void reshape(Machine& machine) {
  const auto tensor = machine.pick_for_view(1);
  auto shape = tensor.sizes().vec();
  std::reverse(shape.begin(), shape.end());
  machine.push(tensor.reshape(shape));
}

void copy(Machine& machine) {
  const auto tensor = machine.pick_for_view();
  switch (machine.dice().below(4)) {
    case 0:
      return machine.push_writable(tensor.clone());
    case 1:
      return machine.push(tensor.contiguous());
    case 2:
      return machine.push(tensor.dim() == 4 ? tensor.contiguous(at::MemoryFormat::ChannelsLast)
                                            : tensor.clone());
    default:
      return machine.push_writable(tensor * 1.0);
  }
}

void detach(Machine& machine) { machine.push(machine.pick().detach()); }

void strided(Machine& machine) {
  const auto tensor = machine.pick(1).contiguous();
  const auto half = tensor.numel() / 2;
  machine.push(tensor.as_strided({2, half}, {1, half > 0 ? 2 : 1}));
}

void complex_view(Machine& machine) {
  const auto tensor = machine.pick_float(1);
  const auto even = tensor.reshape({-1}).narrow(0, 0, tensor.numel() / 2 * 2).reshape({-1, 2});
  const auto pairs = torch::view_as_complex(even.contiguous());
  machine.push(torch::view_as_real(pairs.conj().resolve_conj()));
}

}  // namespace

std::vector<Operation> view_operations() {
  return {{"view", 12, view},      {"view_of_view", 4, view_of_view},
          {"parts", 5, parts},     {"reshape", 4, reshape},
          {"copy", 4, copy},       {"detach", 1, detach},
          {"strided", 1, strided}, {"complex_view", 1, complex_view}};
}

}  // namespace gradrecomp::fuzzing
