#pragma once

#include <ATen/core/Tensor.h>

namespace gradrecomp::test::host_device {

/// New memory of this thread's device.
c10::Storage device_storage(std::size_t num_bytes);

/// A tensor of the device in `storage`, laid out like `pattern`.
at::Tensor device_tensor(const c10::Storage& storage, const at::Tensor& pattern);

/// Makes the memory of a tensor of the device at least as large; its contents stay.
void grow(const at::Tensor& tensor, std::size_t num_bytes);

/// Gives LibTorch the kernels that make, lay out and grow tensors of the device.
void register_tensors();

}  // namespace gradrecomp::test::host_device
