#include "tape/lent/parameter_copies.h"

#include <algorithm>
#include <cstring>

namespace gradrecomp::tape {

bool is_worth_a_copy(const at::Tensor& parameter) {
  return static_cast<std::int64_t>(parameter.nbytes()) <= kMostCopiedBytes &&
         parameter.is_non_overlapping_and_dense();
}

at::Tensor ParameterCopies::find(const at::Tensor& parameter) {
  if (!parameter.is_cpu()) return {};
  const Geometry geometry(parameter);
  const auto known = std::ranges::find_if(copies_, [&](const Copy& copy) {
    return copy.address == parameter.const_data_ptr() && copy.geometry.shows_like(geometry);
  });
  if (known == copies_.end()) return {};
  const at::Tensor copy = known->geometry.over(tape_.values()[known->value].storage);
  const bool is_current =
      std::memcmp(copy.const_data_ptr(), parameter.const_data_ptr(), parameter.nbytes()) == 0;
  if (is_current) return copy;
  copies_.erase(known);
  return {};
}

void ParameterCopies::add(const at::Tensor& parameter, const at::Tensor& copy, ValueId value) {
  if (!parameter.is_cpu()) return;  // it would never be found
  copies_.push_back({parameter.const_data_ptr(), Geometry(copy), value});
}

}  // namespace gradrecomp::tape
