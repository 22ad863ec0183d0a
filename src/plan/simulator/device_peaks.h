#pragma once

#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// What `plan` does to the memory of each device of `graph`; empty if there is just one.
std::vector<DevicePeak> device_peaks(const Graph& graph, const Plan& plan);

}  // namespace gradrecomp::plan
