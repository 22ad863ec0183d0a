#pragma once

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// Limits of a plan, both included.
struct PlanLimits {
  std::int64_t peak_bytes = 0;
  std::int64_t units = 0;  ///< of overhead; see cost_units.h
};

}  // namespace gradrecomp::plan
