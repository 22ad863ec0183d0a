#pragma once

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// `plan`, made elsewhere for this op sequence, with what it is predicted to do on `graph`.
///
/// Only peaks, overheads and the number of replays are measured anew; `feasible` and the proven
/// figures stay.
/// Throws:  std::invalid_argument if `plan` does not fit `graph`.
GRADRECOMP_API Plan predict(const Graph& graph, Plan plan);

}  // namespace gradrecomp::plan
