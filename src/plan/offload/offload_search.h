#pragma once

#include <functional>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/request.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// Plans a graph with some values decided on.
using PlanMaker =
    std::function<Plan(const Graph&, const Request&, const std::vector<Constraint>& constraints)>;

/// The best plan for `request`, whose host link is set, that may send kept values to host memory.
/// `base` is the best that may not. See Note [ Offload ] in offload_search.cpp.
Plan with_offloads(const Graph& graph, const Request& request, const Plan& base,
                   const PlanMaker& make);

}  // namespace gradrecomp::plan
