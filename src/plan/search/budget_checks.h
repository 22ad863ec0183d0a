#pragma once

#include <cstdint>
#include <string_view>

#include "plan/error.h"

namespace gradrecomp::plan {

/// `asked_by`: the request or function whose argument it is.
/// Throws:  std::invalid_argument naming it, if no plan can be asked for that.
inline void check_max_overhead(std::string_view asked_by, double max_overhead) {
  if (max_overhead >= 0) return;
  raise({asked_by, "max_overhead", spelled(max_overhead), "at least 0",
         "Pass a ratio to the plain step, 0.05 for 5%"});
}

/// The same of bytes.
inline void check_max_peak_bytes(std::string_view asked_by, std::int64_t max_peak_bytes) {
  if (max_peak_bytes > 0) return;
  raise({asked_by, "max_peak_bytes", spelled(max_peak_bytes), "above 0",
         "Pass the bytes that activations may take"});
}

/// The same of how long to search.
inline void check_effort(std::string_view asked_by, double effort) {
  constexpr double kMost = 1000;
  if (effort >= 0 && effort <= kMost) return;
  raise({asked_by, "effort", spelled(effort), "from 0 to " + spelled(kMost),
         "Pass 1 for a second or two"});
}

}  // namespace gradrecomp::plan
