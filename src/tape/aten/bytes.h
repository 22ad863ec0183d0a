#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Of what allocators give out, at least.
inline constexpr std::size_t kAlignment = 64;

/// How many bytes an address lies beyond a multiple of kAlignment.
inline std::size_t misalignment_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kAlignment;
}

/// How many bytes of memory it has: none, whatever its size says, once that was taken away.
inline std::int64_t bytes_in(const c10::Storage& storage) {
  return storage.data() == nullptr ? 0 : static_cast<std::int64_t>(storage.nbytes());
}

/// A tensor over all bytes of `storage`.
at::Tensor as_bytes(const c10::Storage& storage);

/// Whether there may be memory like that of `storage`: kernels may choose by how far it lies beyond
/// such a multiple in which order they add, and on devices all that is allocated lies at one.
inline bool can_have_like(const c10::Storage& storage) {
  return storage.device().is_cpu() || misalignment_of(storage.data()) == 0;
}

/// As many bytes on the device of `storage`, of any content, as far beyond such a multiple.
c10::Storage memory_like(const c10::Storage& storage);

/// A copy of the bytes of `storage` in memory like that, which neither autograd nor a recorder
/// sees.
c10::Storage clone(const c10::Storage& storage);

/// Whether `tensor` shows each byte of its storage, once.
bool fills_its_storage(const at::Tensor& tensor);

/// Waits for the device that they are on.
bool same_bits(const c10::Storage& a, const c10::Storage& b);

}  // namespace gradrecomp::tape
