#pragma once

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::profile {

/// Gives ops that are equal but for their measured seconds the mean of these, without the fastest
/// and the slowest quarter.
///
/// Each op was timed once. A planner would choose, of many equal ones, those that happened to be
/// fast, and promise less than they take.
void average_seconds_of_equal_ops(plan::Graph& graph);

}  // namespace gradrecomp::profile
