#include "tape/lent/small_copies.h"

#include <algorithm>
#include <cstring>

namespace gradrecomp::tape {

bool is_worth_a_copy(const at::Tensor& tensor) {
  const auto num_bytes = static_cast<std::int64_t>(tensor.nbytes());
  const bool has_gaps = !tensor.is_non_overlapping_and_dense();
  return (has_gaps ? size_of(Geometry(tensor).extent()) : num_bytes) <= kMostCopiedBytes;
}

at::Tensor SmallCopies::find(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return {};
  const Geometry geometry(tensor);
  const auto known = std::ranges::find_if(copies_, [&](const Copy& copy) {
    return copy.address == tensor.const_data_ptr() && copy.geometry.shows_like(geometry);
  });
  if (known == copies_.end()) return {};
  const at::Tensor copy = known->geometry.over(tape_.values()[known->value].storage);
  const auto num_bytes = static_cast<std::size_t>(size_of(geometry.extent()));
  const bool is_current =
      std::memcmp(copy.const_data_ptr(), tensor.const_data_ptr(), num_bytes) == 0;
  if (is_current) return copy;
  copies_.erase(known);
  return {};
}

void SmallCopies::add(const at::Tensor& tensor, const at::Tensor& copy, ValueId value) {
  if (!tensor.is_cpu()) return;  // it would never be found
  copies_.push_back({tensor.const_data_ptr(), Geometry(copy), value});
}

}  // namespace gradrecomp::tape
