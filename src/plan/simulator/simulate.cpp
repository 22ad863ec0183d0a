#include "gradrecomp/plan/simulate.h"

#include <cstddef>
#include <utility>

#include "plan/simulator/execution.h"
#include "plan/simulator/plan_checks.h"

namespace gradrecomp::plan {
namespace {

/// Empties it but keeps its memory, as small graphs are run by the thousand.
void clear(Timeline& timeline) {
  timeline.live_bytes.clear();
  timeline.peak_bytes.clear();
  timeline.held.clear();
  timeline.replayed_ops.clear();
  timeline.replay_events.clear();
  timeline.returned_values.clear();
  timeline.return_events.clear();
}

}  // namespace

Simulator::Simulator(const Graph& graph) : execution_(std::make_unique<Execution>(graph)) {}

Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&& other) noexcept = default;
Simulator& Simulator::operator=(Simulator&& other) noexcept = default;

Simulation Simulator::run(std::span<const std::uint8_t> keep) { return run(keep, {}); }

Simulation Simulator::run(std::span<const std::uint8_t> keep, Timeline& timeline) {
  return run(keep, {}, timeline);
}

Simulation Simulator::run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps) {
  return run(keep, sweeps, std::span<const Offload>());
}

Simulation Simulator::run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                          Timeline& timeline) {
  return run(keep, sweeps, {}, timeline);
}

Simulation Simulator::run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                          std::span<const Offload> offloads) {
  return run_events(keep, sweeps, offloads, {}, nullptr);
}

Simulation Simulator::run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                          std::span<const Offload> offloads, Timeline& timeline) {
  return run_events(keep, sweeps, offloads, {}, &timeline);
}

Simulation Simulator::run(const Plan& plan) {
  return run_events(plan.keep, plan.sweeps, plan.offloads, plan.roundings, nullptr);
}

Simulation Simulator::run(const Plan& plan, Timeline& timeline) {
  return run_events(plan.keep, plan.sweeps, plan.offloads, plan.roundings, &timeline);
}

Simulation Simulator::run_events(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                                 std::span<const Offload> offloads,
                                 std::span<const Rounding> roundings, Timeline* timeline) {
  Execution& execution = *execution_;
  check_plan(execution.graph(), keep, sweeps);
  check_absences(execution.graph(), keep, offloads, roundings);
  execution.begin(sweeps, absences(offloads, roundings), timeline);
  if (timeline != nullptr) clear(*timeline);
  std::int64_t highest = 0;
  Index peak_event = -1;
  for (std::size_t t = 0; t < execution.graph().events.size(); ++t) {
    const std::int64_t peak_bytes = execution.run_event(t, keep);
    if (peak_bytes > highest) {
      highest = peak_bytes;
      peak_event = static_cast<Index>(t);
    }
    if (timeline != nullptr) {
      timeline->live_bytes.push_back(execution.state().live_bytes);
      timeline->peak_bytes.push_back(peak_bytes);
    }
  }
  Simulation result = execution.replays();
  result.peak_bytes = highest;
  result.peak_event = peak_event;
  result.seal_bytes = execution.seal_bytes();
  return result;
}

std::vector<Sweep> Simulator::defer(std::span<const std::uint8_t> keep,
                                    std::span<const Index> cached_from) {
  check_plan(execution_->graph(), keep, {});
  return execution_->defer(keep, cached_from);
}

Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep) {
  return Simulator(graph).run(keep);
}

Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                    std::span<const Sweep> sweeps, std::span<const Offload> offloads) {
  return Simulator(graph).run(keep, sweeps, offloads);
}

Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                    std::vector<std::int64_t>& live_bytes_after_event) {
  Timeline timeline;
  const Simulation result = Simulator(graph).run(keep, timeline);
  live_bytes_after_event = std::move(timeline.live_bytes);
  return result;
}

}  // namespace gradrecomp::plan
