#pragma once

#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/request.h"
#include "gradrecomp/plan/selection.h"
#include "plan/offload/offload_search.h"

namespace gradrecomp::plan {

/// The best plan for `request`, whose rounding speed is set, that may round kept values. `base` is
/// the best that may not. See Note [ Rounding ] in roundable_graph.cpp.
Plan with_roundings(const Graph& graph, const Request& request, const Plan& base,
                    const PlanMaker& make);

}  // namespace gradrecomp::plan
