#include "tape/host_memory/offload_plan.h"

#include <algorithm>
#include <utility>

namespace gradrecomp::tape {

OffloadPlan::OffloadPlan(std::vector<Offload> offloads)
    : by_value_(std::move(offloads)), by_op_(by_value_), by_demand_(by_value_) {
  std::ranges::sort(by_value_, {}, &Offload::value);
  std::ranges::stable_sort(by_op_, {}, &Offload::leaves_after);
  std::ranges::stable_sort(by_demand_, {}, &Offload::returns_at);
}

bool OffloadPlan::takes(std::int32_t value) const {
  return std::ranges::binary_search(by_value_, value, {}, &Offload::value);
}

std::span<const Offload> OffloadPlan::leaving(std::int32_t first, std::int32_t last) const {
  const auto begin = std::ranges::lower_bound(by_op_, first, {}, &Offload::leaves_after);
  const auto end = std::ranges::upper_bound(by_op_, last, {}, &Offload::leaves_after);
  return {begin, end};
}

std::span<const Offload> OffloadPlan::returning(std::int32_t value) const {
  const auto begin = std::ranges::lower_bound(by_demand_, value, {}, &Offload::returns_at);
  const auto end = std::ranges::upper_bound(by_demand_, value, {}, &Offload::returns_at);
  return {begin, end};
}

}  // namespace gradrecomp::tape
