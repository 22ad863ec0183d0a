#include <string>

#include "gradrecomp/plan/graph.h"
#include "plan/error.h"
#include "transient_bytes.h"

namespace gradrecomp::plan {

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

}  // namespace gradrecomp::plan
