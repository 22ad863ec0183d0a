#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// A kept set and what the simulator says of it.
struct Candidate {
  KeptSet keep = {};
  std::vector<Sweep> sweeps = {};
  /// Gives the sweeps, see Simulator::defer; empty: they come from elsewhere, or there are none.
  std::vector<Index> cached_from = {};
  Simulation result = {};
  double overhead = 0;
  double total = 0;  ///< overhead with ties broken, see ReplayCost

  /// What a candidate costs, in the order in which candidates are preferred.
  [[nodiscard]] std::pair<double, double> cost() const { return {overhead, total}; }
};

/// The candidates that no other one beats in cost and peak, by rising cost and falling peak.
class Front {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// False if some candidate is at least as good.
  bool add(Candidate candidate);

  /// Whether `candidate` would enter.
  [[nodiscard]] bool wants(const Candidate& candidate) const;

  /// Position of the least peak within `max_overhead`, kNone if there is none.
  [[nodiscard]] std::size_t last_within(double max_overhead) const;

  /// Position of the least cost within `max_peak_bytes`, kNone if there is none.
  [[nodiscard]] std::size_t first_within(std::int64_t max_peak_bytes) const;

  [[nodiscard]] const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  std::vector<Candidate> candidates_;
};

}  // namespace gradrecomp::plan
