#include "operators/view.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <utility>

namespace gradrecomp::test::host_device {
namespace {

c10::Storage storage_of(c10::DataPtr data, std::size_t num_bytes) {
  return {c10::Storage::use_byte_size_t(), num_bytes, std::move(data), nullptr, false};
}

}  // namespace

View view_of(const at::Tensor& tensor) {
  return {.memory = tensor.storage().mutable_data(),
          .num_bytes = tensor.storage().nbytes(),
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset(),
          .dtype = tensor.dtype(),
          .is_conjugated = tensor.is_conj(),
          .is_negated = tensor.is_neg()};
}

at::Tensor HostTensors::of(const View& view) {
  const bool has_memory = view.memory != nullptr;  // else nothing is shared
  const auto known = has_memory ? storages_.find(view.memory) : storages_.end();
  const c10::Storage storage =
      known != storages_.end() ? known->second : make_(view.memory, view.num_bytes);
  if (has_memory) storages_.emplace(view.memory, storage);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), view.dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes, view.strides, view.offset);
  tensor._set_conj(view.is_conjugated);
  tensor._set_neg(view.is_negated);
  return tensor;
}

HostTensors tensors_in_place() {
  return HostTensors([](void* memory, std::size_t num_bytes) {
    return storage_of(c10::DataPtr(memory, c10::kCPU), num_bytes);
  });
}

HostTensors tensors_of_zeros() {
  return HostTensors([](void* /*memory*/, std::size_t num_bytes) {
    auto data = c10::GetCPUAllocator()->allocate(num_bytes);
    if (num_bytes > 0) std::memset(data.mutable_get(), 0, num_bytes);
    return storage_of(std::move(data), num_bytes);
  });
}

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.is_cpu() ? tensor : tensors_in_place().of(view_of(tensor));
}

}  // namespace gradrecomp::test::host_device
