#pragma once

#include <cstdint>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/proof.h"
#include "plan/bounds/int128.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// The line that a proof proves, in whole numbers throughout: no search and no rounding in favour
/// of the claim.
class ProvenLine {
 public:
  static constexpr int kWeightBits = 40;
  static constexpr std::int64_t kHighestSumOfWeights = std::int64_t{1} << (kWeightBits + 1);
  static constexpr std::int64_t kHighestPrice = std::int64_t{1} << 55;

  /// Solves the minimum cut.
  /// Throws:  std::invalid_argument, naming `proof` as `name`, if its moments are not ascending
  ///          events of the graph or a number is out of range.
  ProvenLine(const Graph& graph, const ReplayCost& replay_cost, const Proof& proof,
             const char* name);

  /// No plan of at most this overhead has a lower peak.
  [[nodiscard]] std::int64_t peak_bytes(double overhead) const;
  /// No plan of at most this peak has a lower overhead.
  [[nodiscard]] double overhead(std::int64_t peak_bytes) const;

 private:
  // sum_of_weights_ * peak + price_ * (overhead in units of 2^-40) >= value_ for every plan.
  Int128 sum_of_weights_ = 0;
  Int128 price_ = 0;
  Int128 value_ = 0;
};

}  // namespace gradrecomp::plan
