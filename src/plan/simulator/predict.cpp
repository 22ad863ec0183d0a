#include "gradrecomp/plan/predict.h"

#include <utility>

#include "device_peaks.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/simulate.h"
#include "replay_cost.h"

namespace gradrecomp::plan {

Plan predict(const Graph& graph, Plan plan) {
  Simulator simulator(graph);
  const ReplayCost replay_cost(graph, plan.cost);
  const Simulation result = simulator.run(plan);
  plan.predicted_peak_bytes = result.peak_bytes;
  plan.predicted_plain_peak_bytes = simulator.run(keep_all(graph)).peak_bytes;
  plan.devices = device_peaks(graph, plan);
  plan.predicted_overhead_seconds = replay_cost.seconds_ratio(result.replay_seconds);
  plan.predicted_overhead_flops = replay_cost.flops_ratio(result.replay_flops);
  plan.num_replayed_ops = result.num_replayed_ops;
  plan.offloaded_bytes = 0;
  for (const Offload& offload : plan.offloads) {
    plan.offloaded_bytes += graph.values[offload.value].bytes;
  }
  plan.rounded_bytes = 0;
  for (const Rounding& rounding : plan.roundings) {
    plan.rounded_bytes += graph.values[rounding.value].bytes;
  }
  return plan;
}

}  // namespace gradrecomp::plan
