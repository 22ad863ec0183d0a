#include "tape/geometry/geometry.h"

#include <c10/util/accumulate.h>
#include <c10/util/hash.h>

#include <utility>

namespace gradrecomp::tape {
namespace {

/// Of views whose elements are made of the bytes when they are read.
constexpr c10::DispatchKeySet kLazyBits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

}  // namespace

Geometry::Geometry(const at::Tensor& tensor)
    : storage_offset_(tensor.storage_offset()),
      dtype_(tensor.dtype()),
      keys_(tensor.key_set()),
      is_dense_(tensor.is_non_overlapping_and_dense()),
      wrapped_number_(tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
  shape_.set_sizes(tensor.sizes());
  shape_.set_strides(tensor.strides());
}

bool Geometry::is_of(const at::Tensor& tensor) const {
  return sizes() == tensor.sizes() && strides() == tensor.strides() && dtype_ == tensor.dtype() &&
         storage_offset_ == tensor.storage_offset() && keys_ == tensor.key_set() &&
         wrapped_number_ == tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

bool Geometry::shows_like(const Geometry& other) const {
  return dtype_ == other.dtype_ && sizes() == other.sizes() && strides() == other.strides() &&
         (keys_ & kLazyBits) == (other.keys_ & kLazyBits);
}

bool Geometry::shows_its_bytes() const { return !keys_.has_any(kLazyBits); }

std::size_t Geometry::hash() const {
  std::size_t hash = c10::hash_combine(static_cast<std::size_t>(storage_offset_),
                                       static_cast<std::size_t>(scalar_type()));
  for (const auto size : sizes()) hash = c10::hash_combine(hash, static_cast<std::size_t>(size));
  for (const auto stride : strides()) {
    hash = c10::hash_combine(hash, static_cast<std::size_t>(stride));
  }
  return hash;
}

bool Geometry::fills(std::int64_t storage_bytes) const {
  const auto bytes = c10::multiply_integers(sizes()) * static_cast<std::int64_t>(dtype_.itemsize());
  return is_dense_ && storage_offset_ == 0 && bytes == storage_bytes;
}

Extent Geometry::extent() const {
  const auto item_bytes = static_cast<std::int64_t>(dtype_.itemsize());
  std::int64_t last = storage_offset_;
  for (std::size_t i = 0; i < sizes().size(); ++i) {
    if (sizes()[i] == 0) return {};
    last += (sizes()[i] - 1) * strides()[i];
  }
  return {storage_offset_ * item_bytes, (last + 1) * item_bytes};
}

at::Tensor Geometry::over(c10::Storage storage) const {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys_, dtype_);
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(sizes(), strides(), storage_offset_);
  if (wrapped_number_) impl->set_wrapped_number(true);
  return tensor;
}

}  // namespace gradrecomp::tape
