#include "gradrecomp/tape/geometry.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gradrecomp::tape {

Geometry::Geometry(const at::Tensor& tensor)
    : storage_offset_(tensor.storage_offset()),
      dtype_(tensor.dtype()),
      keys_(tensor.key_set()),
      wrapped_number_(tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
  shape_.set_sizes(tensor.sizes());
  shape_.set_strides(tensor.strides());
}

bool Geometry::shows_like(const Geometry& other) const {
  return dtype_ == other.dtype_ && sizes() == other.sizes() && strides() == other.strides();
}

bool Geometry::fills(std::int64_t storage_bytes) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> strides_and_sizes;
  for (std::size_t d = 0; d < sizes().size(); ++d) {
    if (sizes()[d] != 1) strides_and_sizes.emplace_back(strides()[d], sizes()[d]);
  }
  std::ranges::sort(strides_and_sizes);
  std::int64_t count = 1;
  for (const auto& [stride, size] : strides_and_sizes) {
    if (stride != count) return false;
    count *= size;
  }
  return storage_offset_ == 0 &&
         count * static_cast<std::int64_t>(dtype_.itemsize()) == storage_bytes;
}

at::Tensor Geometry::over(c10::Storage storage) const {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys_, dtype_);
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(sizes(), strides(), storage_offset_);
  if (wrapped_number_) impl->set_wrapped_number(true);
  return tensor;
}

}  // namespace gradrecomp::tape
