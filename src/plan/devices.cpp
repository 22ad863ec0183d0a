#include "devices.h"

#include <cstddef>
#include <string>

#include "error.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"

namespace gradrecomp::plan {

std::int64_t transient_bytes(const Op& op, Index device) {
  if (device == 0) return op.transient_bytes;
  const auto place = static_cast<std::size_t>(device) - 1;
  return place < op.further_transient_bytes.size() ? op.further_transient_bytes[place] : 0;
}

Graph on_device(const Graph& graph, Index device) {
  if (device < 0 || device >= num_devices(graph)) {
    raise({"on_device", "device", spelled(device),
           "from 0 to " + std::to_string(num_devices(graph) - 1), "Pass an index of devices"});
  }
  Graph one = graph;
  one.devices.clear();
  for (Value& v : one.values) {
    if (v.device != device) v.bytes = 0;
    v.device = 0;
  }
  for (Op& op : one.ops) {
    op.transient_bytes = transient_bytes(op, device);
    op.further_transient_bytes.clear();
  }
  for (Event& event : one.events) {
    if (event.device != device) event.net_bytes = event.peak_bytes = 0;
    event.device = 0;
  }
  return one;
}

std::vector<DevicePeak> device_peaks(const Graph& graph, const Plan& plan) {
  std::vector<DevicePeak> peaks;
  for (std::size_t d = 0; d < graph.devices.size(); ++d) {
    Simulator simulator(on_device(graph, static_cast<Index>(d)));
    peaks.push_back({graph.devices[d],
                     simulator.run(plan.keep, plan.sweeps, plan.offloads).peak_bytes,
                     simulator.run(keep_all(graph)).peak_bytes});
  }
  return peaks;
}

}  // namespace gradrecomp::plan
