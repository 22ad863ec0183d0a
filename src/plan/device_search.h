#pragma once

#include <functional>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/selection.h"
#include "gradrecomp/plan/solver.h"

namespace gradrecomp::plan {

/// The kept set that is best on a graph of a single device with some values decided on. Replays
/// nothing twice.
using KeepMaker = std::function<KeptSet(const Graph&, const Request&, const std::vector<Verdict>&)>;

/// What to keep, and whether it meets the budget on every device.
struct DeviceChoice {
  KeptSet keep = {};
  bool feasible = true;
};

/// The best kept set for the budget of `request` on a graph of several devices.
/// See Note [ Several devices ] in device_search.cpp.
DeviceChoice choose_on_devices(const Graph& graph, const Request& request,
                               const std::vector<Verdict>& verdicts, const KeepMaker& make);

}  // namespace gradrecomp::plan
