#include "measure/tensor_snapshot.h"

#include <torch/torch.h>

#include <algorithm>
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

bool same(const torch::Tensor& copy, const torch::Tensor& tensor) {
  if (!tensor.defined() || !copy.defined()) return tensor.defined() == copy.defined();
  if (copy.scalar_type() != tensor.scalar_type() || copy.sizes() != tensor.sizes()) return false;
  const auto host = tensor.detach().to(torch::kCPU).contiguous();
  return std::memcmp(copy.const_data_ptr(), host.const_data_ptr(), copy.nbytes()) == 0;
}

}  // namespace

TensorSnapshot::TensorSnapshot(const std::vector<torch::Tensor>& tensors) {
  std::ranges::transform(tensors, std::back_inserter(copies_), uncounted_copy);
}

bool TensorSnapshot::equals(const std::vector<torch::Tensor>& tensors) const {
  return std::ranges::equal(copies_, tensors, same);
}

void TensorSnapshot::restore(const std::vector<torch::Tensor>& tensors) const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].defined()) tensors[i].detach().copy_(copies_[i]);
  }
}

}  // namespace gradrecomp::program
