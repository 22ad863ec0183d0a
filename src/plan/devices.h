#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// Most bytes that `op` takes of one device.
std::int64_t transient_bytes(const Op& op, Index device);

/// What `plan` does to the memory of each device of `graph`; empty if there is just one.
std::vector<DevicePeak> device_peaks(const Graph& graph, const Plan& plan);

}  // namespace gradrecomp::plan
