#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// From points by rising cost, leaves those whose peak is below that of every cheaper one.
template <typename Point, typename PeakBytes>
void drop_dominated(std::vector<Point>& points, PeakBytes peak_bytes) {
  auto least = std::numeric_limits<std::int64_t>::max();
  std::erase_if(points, [&](const Point& point) {
    if (peak_bytes(point) >= least) return true;
    least = peak_bytes(point);
    return false;
  });
}

}  // namespace gradrecomp::plan
