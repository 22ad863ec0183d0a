#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/request.h"
#include "gradrecomp/plan/selection.h"
#include "plan/chain/chain_search.h"

namespace gradrecomp::plan {

/// Makes the best plan for a graph of a single device with some values decided on.
using DeviceMaker =
    std::function<FixedPlan(const Graph&, const Request&, const std::vector<Constraint>&, Replays)>;

/// Of peaks that are `all_bytes` together, up to which one does not matter.
constexpr std::int64_t negligible_bytes(std::int64_t all_bytes) { return all_bytes / 256; }

/// What to keep, and whether it meets the budget on every device.
struct DeviceChoice {
  FixedPlan made = {};
  bool feasible = true;
  bool main_alone = false;  ///< the budget is about the main device, which was planned by itself
};

/// Finds the best plan for the budget of `request` on a graph of several devices. See Note [
/// Several devices ] in device_search.cpp.
DeviceChoice choose_on_devices(const Graph& graph, const Request& request,
                               const std::vector<Constraint>& constraints, const DeviceMaker& make);

}  // namespace gradrecomp::plan
