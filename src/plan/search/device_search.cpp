#include "device_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "gradrecomp/plan/simulate.h"
#include "plan/graph/choosable_values.h"
#include "plan/graph/wanted_values.h"
#include "plan/policies/policy_sets.h"
#include "plan/simulator/device_peaks.h"
#include "plan/simulator/replay_cost.h"

// Note [ Several devices ]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Seen from one device, values on the others cost no bytes. So one device is planned at a time, on
// the graph as on_device() shows it, with what is kept elsewhere decided beforehand. Replays run
// across devices: what one device drops may have another one's ops replayed, which takes time and
// memory there. A plan for one device knows the time, as it is that of the whole step. It does not
// know the memory elsewhere, so every kept set is simulated on all devices before it is taken.
//
// A budget of overhead is given out in slices. Each goes to the device whose peak falls most by it,
// and at last every device is planned once more with all that is left. No slice goes to a plan that
// raises some device's peak above that of the plain step, or next to nothing. A bound in bytes
// holds for each device: those above it are planned anew, from where everything is kept or else
// from the fixed policy that is nearest to the bound, until none is, or a few rounds have passed.
//
// Plans made so replay nothing twice, as the sweeps of one device's plan would not outlast the next
// one's. But often one device is all that the budget is about: the others hold next to nothing, or
// are below the bound. Then that one is planned as if it were alone, and the others keep what they
// save. They may then hold more than in the plain step, as long as that is next to nothing, too.

namespace gradrecomp::plan {
namespace {

constexpr int kNumSlices = 3;
constexpr int kNumRounds = 2;
constexpr int kMaxEvery = 32;

/// What to keep and what that does.
struct State {
  FixedPlan made = {};
  std::vector<std::int64_t> peak_bytes = {};  ///< per device
  double overhead = 0;
  double total = 0;  ///< overhead with ties broken, see ReplayCost

  [[nodiscard]] std::int64_t all_bytes() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : peak_bytes) sum += bytes;
    return sum;
  }
  [[nodiscard]] std::int64_t worst_bytes() const { return *std::ranges::max_element(peak_bytes); }
};

/// Less memory, or the same for less.
bool saves_more(const State& a, const State& b) {
  if (a.all_bytes() != b.all_bytes()) return a.all_bytes() < b.all_bytes();
  return a.total < b.total;
}

/// Nearer to a bound that holds on every device.
bool is_nearer(const State& a, const State& b) {
  if (a.worst_bytes() != b.worst_bytes()) return a.worst_bytes() < b.worst_bytes();
  return a.total < b.total;
}

class DeviceSearch {
 public:
  DeviceSearch(const Graph& graph, const Request& request,
               const std::vector<Constraint>& constraints, const DeviceMaker& make)
      : graph_(graph),
        request_(request),
        constraints_(constraints),
        make_(make),
        replay_cost_(graph, request.cost) {
    for (Index d = 0; d < num_devices(graph); ++d) {
      graphs_.push_back(on_device(graph, d));
      simulators_.emplace_back(graphs_.back());
    }
    best_ = measured({constrained(graph_, constraints_, keep_all(graph))});
    most_bytes_ = measured({keep_all(graph)}).peak_bytes;
    for (std::size_t d = 0; d < most_bytes_.size(); ++d) {
      // A selection may ask for more than the plain step has, and a few bytes matter nowhere: what
      // replays attention on a card makes its random seeds on the host again.
      most_bytes_[d] =
          std::max({most_bytes_[d], best_.peak_bytes[d], negligible_bytes(best_.all_bytes())});
    }
  }

  DeviceChoice run() {
    const Index only = only_one_that_matters();
    if (only < 0) return choose();
    const auto constraints = decided_around(best_, only);
    State alone = measured(make_(graphs_[only], request_, constraints, Replays::many));
    if (is_met(alone)) return {std::move(alone.made), true, only == 0};
    DeviceChoice choice = choose();
    const bool is_best = request_.max_peak_bytes && !choice.feasible && is_nearer(alone, best_);
    return is_best ? DeviceChoice{std::move(alone.made), false, only == 0} : choice;
  }

 private:
  [[nodiscard]] Index num() const { return static_cast<Index>(graphs_.size()); }

  /// The device that the budget is about; -1 if it is about several.
  [[nodiscard]] Index only_one_that_matters() const {
    const std::int64_t bound =
        request_.max_peak_bytes.value_or(negligible_bytes(best_.all_bytes()));
    Index only = -1;
    for (Index d = 0; d < num(); ++d) {
      if (best_.peak_bytes[d] <= bound) continue;
      if (only >= 0) return -1;
      only = d;
    }
    return only;
  }

  [[nodiscard]] bool is_low(const State& state) const {
    return std::ranges::equal(state.peak_bytes, most_bytes_, std::less_equal<>());
  }

  [[nodiscard]] bool is_met(const State& state) const {
    if (request_.max_overhead) return state.overhead <= *request_.max_overhead && is_low(state);
    return state.worst_bytes() <= *request_.max_peak_bytes;
  }

  State measured(FixedPlan made) {
    State state{.made = std::move(made)};
    for (Simulator& simulator : simulators_) {
      const Simulation result = simulator.run(state.made.keep, state.made.sweeps);
      state.peak_bytes.push_back(result.peak_bytes);
      state.overhead = replay_cost_.overhead(result);  // the same on each
      state.total = replay_cost_.total(result);
    }
    return state;
  }

  /// Decides on all values but those of one device, as `state` does.
  [[nodiscard]] std::vector<Constraint> decided_around(const State& state, Index device) const {
    auto constraints = constraints_;
    for (std::size_t v = 0; v < constraints.size(); ++v) {
      if (graph_.values[v].device == device || !can_choose(graph_.values[v])) continue;
      constraints[v] = state.made.keep[v] != 0 ? Constraint::keep : Constraint::drop;
    }
    return constraints;
  }

  /// `state` with the values of one device planned anew.
  State replanned(const State& state, Index device, const Request& request) {
    const auto constraints = decided_around(state, device);
    return measured(make_(graphs_[device], request, constraints, Replays::once));
  }

  DeviceChoice choose() {
    return request_.max_overhead ? within_overhead(*request_.max_overhead)
                                 : within_peak(*request_.max_peak_bytes);
  }

  DeviceChoice within_overhead(double max_overhead) {
    for (int slice = 1; slice <= kNumSlices; ++slice) {
      State next = best_;
      const double budget = max_overhead * slice / kNumSlices;
      for (Index d = 0; d < num(); ++d) try_device(best_, d, budget, next);
      best_ = std::move(next);
    }
    for (const State& fixed : by_policies()) take_if_better(fixed, max_overhead, best_);
    for (Index d = 0; d < num(); ++d) {
      const State before = best_;
      try_device(before, d, max_overhead, best_);
    }
    return {best_.made, best_.overhead <= max_overhead};
  }

  /// Makes `best` what `state` is with one device planned anew, if that saves more.
  void try_device(const State& state, Index device, double budget, State& best) {
    Request request = request_;
    request.max_overhead = budget;
    take_if_better(replanned(state, device, request), std::max(budget, state.overhead), best);
  }

  void take_if_better(const State& next, double max_overhead, State& best) const {
    const bool is_admitted = next.overhead <= max_overhead && is_low(next);
    if (is_admitted && saves_more(next, best)) best = next;
  }

  /// What fixed policies keep.
  std::vector<State> by_policies() {
    std::vector<State> states;
    for (KeptSet& keep : simple_sets(graph_, kMaxEvery)) {
      states.push_back(measured({constrained(graph_, constraints_, std::move(keep))}));
    }
    return states;
  }

  DeviceChoice within_peak(std::int64_t max_peak_bytes) {
    lower_from(best_, max_peak_bytes);
    const auto fixed = by_policies();
    if (best_.worst_bytes() > max_peak_bytes) {
      lower_from(*std::ranges::min_element(fixed, is_nearer), max_peak_bytes);
    }
    return {best_.made, best_.worst_bytes() <= max_peak_bytes};
  }

  void lower_from(State now, std::int64_t max_peak_bytes) {
    if (is_nearer(now, best_)) best_ = now;
    for (int round = 0; round < kNumRounds && best_.worst_bytes() > max_peak_bytes; ++round) {
      for (Index d = 0; d < num(); ++d) {
        if (now.peak_bytes[d] <= max_peak_bytes) continue;
        now = replanned(now, d, request_);
        if (is_nearer(now, best_)) best_ = now;
      }
    }
  }

  const Graph& graph_;
  const Request& request_;
  const std::vector<Constraint>& constraints_;
  const DeviceMaker& make_;
  ReplayCost replay_cost_;
  std::vector<Graph> graphs_;          ///< as each device sees it
  std::vector<Simulator> simulators_;  ///< of each of these
  State best_;
  std::vector<std::int64_t> most_bytes_;  ///< per device, that a plan may take
};

}  // namespace

DeviceChoice choose_on_devices(const Graph& graph, const Request& request,
                               const std::vector<Constraint>& constraints,
                               const DeviceMaker& make) {
  return DeviceSearch(graph, request, constraints, make).run();
}

}  // namespace gradrecomp::plan
