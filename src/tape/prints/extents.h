#pragma once

#include <algorithm>

#include "tape/aten/geometry.h"

namespace gradrecomp::tape {

inline std::int64_t size_of(Extent extent) { return extent.end - extent.begin; }

inline bool covers(Extent outer, Extent inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

inline bool overlap(Extent one, Extent other) {
  return one.begin < other.end && other.begin < one.end;
}

/// The least that covers both.
inline Extent hull(Extent one, Extent other) {
  if (size_of(one) <= 0) return other;
  if (size_of(other) <= 0) return one;
  return {std::min(one.begin, other.begin), std::max(one.end, other.end)};
}

}  // namespace gradrecomp::tape
