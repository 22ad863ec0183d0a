#pragma once

#include <limits>

#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/request.h"

namespace gradrecomp::plan {

/// What a budget counts of `plan`: replays and, in seconds, stalls and rounding. A stall has no
/// FLOPs to count, so in FLOPs none is allowed.
inline double cost_of(const Plan& plan, CostModel cost) {
  const double overhead = plan.predicted_overhead(cost);
  if (cost == CostModel::seconds) return overhead + plan.predicted_stall + plan.predicted_rounding;
  return plan.predicted_stall > 0 ? std::numeric_limits<double>::infinity() : overhead;
}

/// Whether `plan` is within the budget of `request`.
inline bool meets(const Plan& plan, const Request& request) {
  return request.max_overhead ? cost_of(plan, request.cost) <= *request.max_overhead
                              : plan.predicted_peak_bytes <= *request.max_peak_bytes;
}

/// Whether `plan` answers `request` better than `other` does.
inline bool answers_better(const Plan& plan, const Plan& other, const Request& request) {
  if (plan.feasible != other.feasible) return plan.feasible;
  const bool by_cost = request.max_peak_bytes && plan.feasible;
  return by_cost ? cost_of(plan, request.cost) < cost_of(other, request.cost)
                 : plan.predicted_peak_bytes < other.predicted_peak_bytes;
}

}  // namespace gradrecomp::plan
