#pragma once

#include "tape/aten/geometry.h"

namespace gradrecomp::tape {

inline std::int64_t size_of(Extent extent) { return extent.end - extent.begin; }

inline bool covers(Extent outer, Extent inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace gradrecomp::tape
