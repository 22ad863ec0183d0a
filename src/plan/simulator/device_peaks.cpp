#include "device_peaks.h"

#include <cstddef>

#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/simulate.h"

namespace gradrecomp::plan {

std::vector<DevicePeak> device_peaks(const Graph& graph, const Plan& plan) {
  std::vector<DevicePeak> peaks;
  for (std::size_t d = 0; d < graph.devices.size(); ++d) {
    Simulator simulator(on_device(graph, static_cast<Index>(d)));
    peaks.push_back({graph.devices[d], simulator.run(plan).peak_bytes,
                     simulator.run(keep_all(graph)).peak_bytes});
  }
  return peaks;
}

}  // namespace gradrecomp::plan
