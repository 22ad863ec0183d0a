#include "bytes.h"

#include <ATen/ATen.h>

#include <cstring>

#include "gradrecomp/tape/geometry.h"

namespace gradrecomp::tape {

at::Tensor as_bytes(const c10::Storage& storage) {
  auto bytes = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device()));
  return bytes.set_(storage, 0, {static_cast<std::int64_t>(storage.nbytes())}, {1});
}

bool fills_its_storage(const at::Tensor& tensor) {
  return Geometry(tensor).fills(static_cast<std::int64_t>(tensor.storage().nbytes()));
}

bool same_bits(const c10::Storage& a, const c10::Storage& b) {
  if (a.nbytes() != b.nbytes()) return false;
  if (a.nbytes() == 0) return true;
  if (a.device().is_cpu()) return std::memcmp(a.data(), b.data(), a.nbytes()) == 0;
  return at::equal(as_bytes(a), as_bytes(b));
}

}  // namespace gradrecomp::tape
