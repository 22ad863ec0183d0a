#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// How many bytes of memory it has: none, whatever its size says, once that was taken away.
inline std::int64_t bytes_in(const c10::Storage& storage) {
  return storage.data() == nullptr ? 0 : static_cast<std::int64_t>(storage.nbytes());
}

/// A tensor over all bytes of `storage`.
at::Tensor as_bytes(const c10::Storage& storage);

/// A copy of the bytes of `storage` on its device, that neither autograd nor a recorder sees.
c10::Storage clone(const c10::Storage& storage);

/// Whether `tensor` shows each byte of its storage, once.
bool fills_its_storage(const at::Tensor& tensor);

/// Waits for the device that they are on.
bool same_bits(const c10::Storage& a, const c10::Storage& b);

}  // namespace gradrecomp::tape
