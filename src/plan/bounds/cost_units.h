#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gradrecomp::plan {

/// Costs in whole numbers: of 2^-40 of the plain step's, so that proofs hold without rounding.
inline constexpr int kCostBits = 40;

/// Above it sums could run over; no op of a step costs near as much.
inline constexpr double kDearestOp = 64;

/// Whole units of an op's cost, none more than it has.
inline std::int64_t units_within(double cost) {
  constexpr double kRounding = 1 - 0x1p-50;  // of the division that made it
  return static_cast<std::int64_t>(std::ldexp(std::min(cost, kDearestOp), kCostBits) * kRounding);
}

/// Whole units of a plan's overhead, and one more than it has: overheads are sums of doubles.
inline std::int64_t units_around(double overhead) {
  return static_cast<std::int64_t>(std::ceil(std::ldexp(overhead, kCostBits))) + 1;
}

}  // namespace gradrecomp::plan
