#include "local_search.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "plan/graph/choosable_values.h"
#include "plan/graph/wanted_values.h"
#include "plan/simulator/event_peaks.h"

// Note [ Local search ]
// ~~~~~~~~~~~~~~~~~~~~~
// A good plan touches its peak at many events, so no change of one value lowers the peak itself.
// The search therefore aims at a target slightly below the peak and lowers the *excess*, the sum
// over events of what is above the target; ties go to the lower total. A move keeps or drops one
// value, or swaps two that were made near each other. When no excess is left the target moves down.
// The moves come from a generator with a fixed seed and their number is bounded by simulations, not
// by a clock: the same request gives the same plan everywhere.

namespace gradrecomp::plan {

LocalSearch::LocalSearch(const Graph& graph, const ReplayCost& replay_cost,
                         std::vector<Constraint> constraints)
    : graph_(graph),
      replay_cost_(replay_cost),
      constraints_(std::move(constraints)),
      simulator_(graph) {
  open_ = open_values(graph, constraints_);
}

Candidate LocalSearch::candidate(KeptSet keep, std::vector<Sweep> sweeps,
                                 const Simulation& result) const {
  return {.keep = std::move(keep),
          .sweeps = std::move(sweeps),
          .result = result,
          .overhead = replay_cost_.overhead(result),
          .total = replay_cost_.total(result)};
}

Candidate LocalSearch::evaluate(KeptSet keep, std::vector<Sweep> sweeps) {
  keep = constrained(graph_, constraints_, std::move(keep));
  const Simulation result = simulator_.run(keep, sweeps);
  return candidate(std::move(keep), std::move(sweeps), result);
}

Candidate LocalSearch::evaluate(KeptSet keep, std::span<const Index> cached_from) {
  if (cached_from.empty()) return evaluate(std::move(keep), std::vector<Sweep>{});
  keep = constrained(graph_, constraints_, std::move(keep));
  std::vector<Sweep> sweeps = simulator_.defer(keep, cached_from);
  const Simulation result = simulator_.run(keep, sweeps);
  Candidate made = candidate(std::move(keep), std::move(sweeps), result);
  made.cached_from.assign(cached_from.begin(), cached_from.end());
  return made;
}

LocalSearch::Measured LocalSearch::measure(KeptSet keep, std::vector<Sweep> sweeps,
                                           std::int64_t target_bytes) {
  Measured measured;
  keep = only_wanted(graph_, std::move(keep));
  const Simulation result = simulator_.run(keep, sweeps, timeline_);
  measured.candidate = candidate(std::move(keep), std::move(sweeps), result);
  PeakSum peaks;
  for (const std::int64_t bytes : timeline_.peak_bytes) peaks.add(bytes, target_bytes);
  measured.excess_bytes = peaks.excess_bytes;
  return measured;
}

KeptSet LocalSearch::neighbour(const KeptSet& keep) {
  constexpr std::uint64_t kReach = 24;
  KeptSet next = keep;
  const std::size_t first = random_() % open_.size();
  next[open_[first]] ^= 1;
  if (random_() % 3 == 0) return next;
  const std::size_t low = first > kReach ? first - kReach : 0;
  const std::size_t high = std::min(open_.size(), first + kReach);
  const bool anywhere = random_() % 4 == 0;
  const std::size_t second = anywhere ? random_() % open_.size() : low + random_() % (high - low);
  next[open_[second]] = keep[open_[first]];
  return next;
}

Candidate LocalSearch::lower_peak(Candidate start, double max_overhead, int num_simulations) {
  if (open_.empty()) return start;
  random_.seed(1);
  const auto below = [](const Candidate& c) {
    return c.result.peak_bytes - c.result.peak_bytes / 256;
  };
  std::int64_t target_bytes = below(start);
  Candidate best = start;
  Measured now = measure(std::move(start.keep), start.sweeps, target_bytes);
  for (int i = 0; i < num_simulations; ++i) {
    Measured next = measure(neighbour(now.candidate.keep), start.sweeps, target_bytes);
    if (next.candidate.overhead > max_overhead || next.excess_bytes > now.excess_bytes) continue;
    if (next.excess_bytes == now.excess_bytes && next.candidate.total > now.candidate.total)
      continue;
    now = std::move(next);
    if (now.candidate.result.peak_bytes < best.result.peak_bytes) best = now.candidate;
    if (now.excess_bytes > 0) continue;
    target_bytes = below(now.candidate);
    now = measure(std::move(now.candidate.keep), start.sweeps, target_bytes);
  }
  return best;
}

Candidate LocalSearch::spare_replays(Candidate start, const Floor& floor, int num_simulations) {
  std::vector<Index> dropped;
  for (const Index v : open_) {
    if (start.keep[v] == 0) dropped.push_back(v);
  }
  const auto cost = [this](Index v) {
    return -replay_cost_.total(graph_.ops[graph_.values[v].producer]);
  };
  std::ranges::stable_sort(dropped, {}, cost);
  if (dropped.size() > static_cast<std::size_t>(num_simulations)) dropped.resize(num_simulations);
  for (const Index v : dropped) {
    KeptSet keep = start.keep;
    keep[v] = 1;
    Candidate next = evaluate(std::move(keep), start.sweeps);
    if (next.result.peak_bytes != start.result.peak_bytes || next.cost() >= start.cost()) continue;
    if (next.cost() <= floor.cost || next.overhead <= floor.overhead) continue;
    start = std::move(next);
  }
  return start;
}

}  // namespace gradrecomp::plan
