#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "front.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// Improves kept sets on the exact simulator, value by value.
class LocalSearch {
 public:
  /// `constraints`: values not open are left as they are.
  LocalSearch(const Graph& graph, const ReplayCost& replay_cost,
              std::vector<Constraint> constraints);

  /// Runs the simulator on `keep`, constraints enforced and unwanted values let go.
  Candidate evaluate(KeptSet keep, std::vector<Sweep> sweeps = {});

  /// The same for replays that leave values behind from some event on; see Simulator::defer.
  Candidate evaluate(KeptSet keep, std::span<const Index> cached_from);

  /// Lowers the peak of `start` within `max_overhead`; see Note [ Local search ] in
  /// local_search.cpp.
  Candidate lower_peak(Candidate start, double max_overhead, int num_simulations);

  /// Costs that a candidate has to stay above.
  struct Floor {
    std::pair<double, double> cost = {-1, -1};
    double overhead = -1;
  };

  /// Keeps what was replayed for nothing: lowers the cost while the peak stays the same.
  Candidate spare_replays(Candidate start, const Floor& floor, int num_simulations);

 private:
  [[nodiscard]] Candidate candidate(KeptSet keep, std::vector<Sweep> sweeps,
                                    const Simulation& result) const;
  struct Measured {
    Candidate candidate;
    std::int64_t excess_bytes = 0;  ///< sum over events of the bytes above the target
  };

  Measured measure(KeptSet keep, std::vector<Sweep> sweeps, std::int64_t target_bytes);
  KeptSet neighbour(const KeptSet& keep);

  const Graph& graph_;
  const ReplayCost& replay_cost_;
  std::vector<Constraint> constraints_;
  Simulator simulator_;
  Timeline timeline_;
  std::vector<Index> open_;  ///< values worth a move
  std::mt19937_64 random_{1};
};

}  // namespace gradrecomp::plan
