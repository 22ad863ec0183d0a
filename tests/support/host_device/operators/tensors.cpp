#include "operators/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>
#include <optional>
#include <utility>

#include "memory/allocator.h"

namespace gradrecomp::test::host_device {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Device chosen(std::optional<at::Device> device) {
  return with_index(device.value_or(c10::Device(c10::kPrivateUse1)));
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> /*layout*/,
                               std::optional<at::Device> device, std::optional<bool> /*pin*/,
                               std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(chosen(device));
  return at::detail::empty_generic(size, &allocator(), kKeys, dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> device, std::optional<bool> /*pin*/) {
  const c10::DeviceGuard guard(chosen(device));
  return at::detail::empty_strided_generic(size, stride, &allocator(), kKeys,
                                           dtype.value_or(at::kFloat));
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat> /*format*/) {
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  grow(self, self.nbytes() + self.storage_offset() * self.itemsize());
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, std::int64_t offset,
                        at::IntArrayRef size, at::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(size, stride, offset);
  return self;
}

void record_stream(at::Tensor& self, at::Stream stream) {
  allocator().recordStream(self.storage().data_ptr(), stream);
}

// As on CUDA, it takes a flag for each number.
bool equal(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && at::eq(one, other).all().item<bool>();
}

}  // namespace

c10::Storage device_storage(std::size_t num_bytes) {
  return {c10::Storage::use_byte_size_t(), num_bytes, allocator().allocate(num_bytes), &allocator(),
          true};
}

at::Tensor device_tensor(const c10::Storage& storage, const at::Tensor& pattern) {
  auto tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), kKeys, pattern.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(pattern.sizes(), pattern.strides(),
                                                      pattern.storage_offset());
  return tensor;
}

void grow(const at::Tensor& tensor, std::size_t num_bytes) {
  const auto& storage = tensor.storage();
  if (num_bytes <= storage.nbytes()) return;
  const c10::DeviceGuard guard(tensor.device());
  auto larger = allocator().allocate(num_bytes);
  if (storage.nbytes() > 0)
    allocator().copy_data(larger.mutable_get(), storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap(std::move(larger));
  storage.set_nbytes(num_bytes);
}

void register_tensors() {
  static auto library = MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1);
  library.impl("empty.memory_format", &empty_memory_format);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &resize);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("record_stream", &record_stream);
  library.impl("equal", &equal);
}

}  // namespace gradrecomp::test::host_device
