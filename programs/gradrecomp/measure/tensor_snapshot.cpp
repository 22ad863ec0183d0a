#include "measure/tensor_snapshot.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>

namespace gradrecomp::program {
namespace {

torch::Tensor on_host(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU).contiguous();
}

}  // namespace

TensorSnapshot::TensorSnapshot(const std::vector<torch::Tensor>& tensors) {
  for (const torch::Tensor& tensor : tensors) {
    Copy& copy = copies_.emplace_back();
    if (!tensor.defined()) continue;
    const auto host = on_host(tensor);
    const auto* data = static_cast<const std::byte*>(host.const_data_ptr());
    copy = {{data, data + host.nbytes()}, host.sizes().vec(), host.scalar_type(), true};
  }
}

bool TensorSnapshot::equals(const std::vector<torch::Tensor>& tensors) const {
  return std::equal(copies_.begin(), copies_.end(), tensors.begin(), tensors.end(), same);
}

bool TensorSnapshot::same(const Copy& copy, const torch::Tensor& tensor) {
  if (!tensor.defined() || !copy.defined) return tensor.defined() == copy.defined;
  if (copy.type != tensor.scalar_type() || tensor.sizes() != copy.shape) return false;
  const auto host = on_host(tensor);
  return copy.bytes.empty() ||
         std::memcmp(copy.bytes.data(), host.const_data_ptr(), copy.bytes.size()) == 0;
}

void TensorSnapshot::restore(const std::vector<torch::Tensor>& tensors) const {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const Copy& copy = copies_[i];
    if (!copy.defined) continue;
    // from_blob has no const form; copy_ only reads.
    auto* data = const_cast<std::byte*>(copy.bytes.data());
    tensors[i].detach().copy_(torch::from_blob(data, copy.shape, copy.type));
  }
}

}  // namespace gradrecomp::program
