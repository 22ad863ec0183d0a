#pragma once

#include <string>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// One figure that a plan states, and what its graph says of it.
struct Claim {
  std::string name = {};  ///< the member of Plan, "proven_peak_bytes"
  double claimed = 0;
  double found = 0;  ///< simulated anew; of a proven figure: what its proof proves, 0 without one
  bool holds = false;
};

/// Checks what `plan` says of itself, without trusting what made it.
///
/// The plan is simulated on the graph: peaks and counts must be equal, overheads equal but for
/// rounding. Each proof's minimum cut is solved anew in whole numbers, and must prove what is
/// claimed or more. Of plans that offload, no stalls are checked: the speed of the link is not in
/// the plan.
/// Throws:  std::invalid_argument if `plan` is for another op sequence than that of `graph`, or
///          does not fit it, or `graph` is invalid.
GRADRECOMP_API std::vector<Claim> verify(const Graph& graph, const Plan& plan);

}  // namespace gradrecomp::plan
