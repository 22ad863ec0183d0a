#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace gradrecomp::program {

/// Leaves tensors on a device about as many bytes as a smaller one has, by holding the rest.
///
/// Bytes that fit transfer to a card of that size, times do not.
class MemoryCap {
 public:
  /// Throws: BadInput on the CPU, or if fewer than `cap_bytes` are free.
  MemoryCap(c10::Device device, std::int64_t cap_bytes);

 private:
  at::Tensor ballast_;
};

}  // namespace gradrecomp::program
