#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "front.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// What is looked for among plans that replay no op twice.
struct SingleReplays {
  double max_overhead = std::numeric_limits<double>::infinity();
  std::int64_t max_peak_bytes = std::numeric_limits<std::int64_t>::max();
};

/// The front of these plans, from the policies and the chain alone where that finds the best.
Front find_single_replays(const Graph& graph, const ReplayCost& replay_cost,
                          const std::vector<Constraint>& constraints, const SingleReplays& wanted);

}  // namespace gradrecomp::plan
