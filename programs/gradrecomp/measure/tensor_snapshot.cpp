#include "measure/tensor_snapshot.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace gradrecomp::program {
namespace {

torch::Tensor uncounted_copy(const torch::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const auto free = [](void* memory) { delete[] static_cast<std::byte*>(memory); };
  return torch::from_blob(new std::byte[tensor.nbytes()], tensor.sizes(), free,
                          tensor.scalar_type())
      .copy_(tensor.detach());
}

// Copies from a GPU run at full speed only into pinned memory.
torch::Tensor on_host(const torch::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor.detach().contiguous();
  const auto options = tensor.options().device(torch::kCPU).requires_grad(false);
  return torch::empty(tensor.sizes(), options.pinned_memory(true)).copy_(tensor.detach());
}

bool same_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  constexpr std::int64_t kGrainBytes = std::int64_t{1} << 20;
  const auto* from = static_cast<const std::byte*>(a.const_data_ptr());
  const auto* to = static_cast<const std::byte*>(b.const_data_ptr());
  std::atomic<bool> all_same = true;
  at::parallel_for(0, static_cast<std::int64_t>(a.nbytes()), kGrainBytes,
                   [&](std::int64_t begin, std::int64_t end) {
                     if (std::memcmp(from + begin, to + begin, end - begin) != 0) all_same = false;
                   });
  return all_same;
}

bool same(const torch::Tensor& copy, const torch::Tensor& tensor) {
  if (!tensor.defined() || !copy.defined()) return tensor.defined() == copy.defined();
  if (copy.scalar_type() != tensor.scalar_type() || copy.sizes() != tensor.sizes()) return false;
  return same_bytes(copy, on_host(tensor));
}

struct Squares {
  double of_differences = 0;
  double of_copies = 0;
};

/// Piece by piece, as it must not add to what the process holds.
void add_squares(const torch::Tensor& copy, const torch::Tensor& tensor, Squares& sum) {
  constexpr std::int64_t kPiece = 1 << 16;
  for (std::int64_t first = 0; first < copy.numel(); first += kPiece) {
    const std::int64_t size = std::min(kPiece, copy.numel() - first);
    const torch::Tensor expected = copy.narrow(0, first, size).to(torch::kDouble);
    const torch::Tensor actual = tensor.narrow(0, first, size).to(torch::kDouble);
    sum.of_differences += (actual - expected).square().sum().item<double>();
    sum.of_copies += expected.square().sum().item<double>();
  }
}

}  // namespace

TensorSnapshot::TensorSnapshot(const std::vector<torch::Tensor>& tensors) {
  std::ranges::transform(tensors, std::back_inserter(copies_), uncounted_copy);
}

bool TensorSnapshot::equals(const std::vector<torch::Tensor>& tensors) const {
  return std::ranges::equal(copies_, tensors, same);
}

double TensorSnapshot::relative_error(const std::vector<torch::Tensor>& tensors) const {
  Squares sum;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (!copies_[i].defined() || !tensors[i].defined() || !copies_[i].is_floating_point()) continue;
    add_squares(copies_[i].flatten(), on_host(tensors[i]).flatten(), sum);
  }
  return sum.of_copies > 0 ? std::sqrt(sum.of_differences / sum.of_copies) : 0;
}

void TensorSnapshot::restore(const std::vector<torch::Tensor>& tensors) const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].defined()) tensors[i].detach().copy_(copies_[i]);
  }
}

}  // namespace gradrecomp::program
