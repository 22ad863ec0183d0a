#include "tape/away/absence_plan.h"

#include <algorithm>
#include <utility>

namespace gradrecomp::tape {

AbsencePlan::AbsencePlan(std::vector<Offload> offloads,
                         const std::vector<plan::Rounding>& roundings)
    : by_value_(std::move(offloads)), by_demand_(by_value_) {
  for (const auto& [value, leaves_after, returns_at] : by_value_) {
    by_op_.push_back({value, leaves_after, /*rounded=*/false});
  }
  for (const auto& [value, after] : roundings) {
    by_op_.push_back({value, after, /*rounded=*/true});
    rounded_.push_back(value);
  }
  std::ranges::sort(rounded_);
  std::ranges::sort(by_value_, {}, &Offload::value);
  std::ranges::sort(by_op_, {}, &Leaving::value);
  std::ranges::stable_sort(by_op_, {}, &Leaving::after);
  std::ranges::stable_sort(by_demand_, {}, &Offload::returns_at);
}

bool AbsencePlan::offloads(std::int32_t value) const {
  return std::ranges::binary_search(by_value_, value, {}, &Offload::value);
}

bool AbsencePlan::rounds(std::int32_t value) const {
  return std::ranges::binary_search(rounded_, value);
}

std::span<const AbsencePlan::Leaving> AbsencePlan::leaving(std::int32_t first,
                                                           std::int32_t last) const {
  const auto begin = std::ranges::lower_bound(by_op_, first, {}, &Leaving::after);
  const auto end = std::ranges::upper_bound(by_op_, last, {}, &Leaving::after);
  return {begin, end};
}

std::span<const Offload> AbsencePlan::returning(std::int32_t value) const {
  const auto begin = std::ranges::lower_bound(by_demand_, value, {}, &Offload::returns_at);
  const auto end = std::ranges::upper_bound(by_demand_, value, {}, &Offload::returns_at);
  return {begin, end};
}

}  // namespace gradrecomp::tape
