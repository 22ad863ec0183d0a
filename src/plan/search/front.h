#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// A kept set and what the simulator says of it.
struct Candidate {
  KeptSet keep = {};
  std::vector<Sweep> sweeps = {};
  Simulation result = {};
  double overhead = 0;
  double total = 0;  ///< overhead with ties broken, see ReplayCost
};

/// The candidates that no other one beats in peak, overhead and total.
class Front {
 public:
  void add(Candidate candidate);

  /// The least peak within `max_overhead`, ties to the lower total; null if there is none.
  [[nodiscard]] const Candidate* least_peak(double max_overhead) const;

  /// The least total within `max_peak_bytes`, ties to the lower peak; null if there is none.
  [[nodiscard]] const Candidate* least_total(std::int64_t max_peak_bytes) const;

  [[nodiscard]] const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  std::vector<Candidate> candidates_;
};

}  // namespace gradrecomp::plan
