#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// `amount` in fixed notation.
inline std::string spelled(double amount, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << amount;
  return text.str();
}

/// In the largest unit of which there is one, such as 1.5 MiB.
inline std::string spelled_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  return spelled(amount, unit == 0 ? 0 : 1) + ' ' + kUnits[unit];
}

inline std::string spelled_percent(double ratio) { return spelled(100 * ratio, 1) + '%'; }

}  // namespace gradrecomp::plan
