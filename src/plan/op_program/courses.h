#pragma once

#include <cstdint>
#include <vector>

#include "open_step.h"
#include "prices.h"

namespace gradrecomp::plan {

/// Limits of a plan, both included.
struct PlanLimits {
  std::int64_t peak_bytes = 0;
  std::int64_t units = 0;  ///< of overhead; see cost_units.h
};

/// The events at which its visits begin, or others that no weight tells from them.
decltype(Course::events) begins_of(const Course& course, const Prices& prices);

/// Those that none of lower cost is as good as. One that stands for another adds no more to the
/// least than that does: its loads may have come out lower than they are.
std::vector<Course> best_of(std::vector<Course> courses);

/// By prices alone, those that no cheaper one is as good as: what visits that begin later leave
/// behind costs less. Where there are many, the dearest become one.
std::vector<Course> cheapest_of(std::vector<Course> courses, const Prices& prices);

/// Where there are many, those that differ least become one.
void thin_out(std::vector<Course>& courses, const PlanLimits& limits);

}  // namespace gradrecomp::plan
