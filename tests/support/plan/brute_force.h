#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"

namespace gradrecomp::test {

/// Every kept set of a small graph, simulated.
class BruteForce {
 public:
  explicit BruteForce(const plan::Graph& graph) {
    std::vector<std::size_t> choices;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const plan::Value& x = graph.values[v];
      if (x.producer >= 0 && x.overwritten_by < 0 && !x.must_keep) choices.push_back(v);
    }
    plan::Simulator simulator(graph);
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << choices.size(); ++bits) {
      plan::KeptSet keep(graph.values.size(), 0);
      for (std::size_t i = 0; i < choices.size(); ++i) keep[choices[i]] = (bits >> i) & 1;
      results_.push_back(simulator.run(keep));
    }
  }

  /// In no order.
  [[nodiscard]] const std::vector<plan::Simulation>& results() const { return results_; }

  [[nodiscard]] std::int64_t least_peak_bytes(double max_replay_seconds) const {
    auto least = std::numeric_limits<std::int64_t>::max();
    for (const plan::Simulation& result : results_) {
      if (result.replay_seconds <= max_replay_seconds) least = std::min(least, result.peak_bytes);
    }
    return least;
  }

  /// Infinite if there is none.
  [[nodiscard]] double least_replay_seconds(std::int64_t max_peak_bytes) const {
    double least = std::numeric_limits<double>::infinity();
    for (const plan::Simulation& result : results_) {
      if (result.peak_bytes <= max_peak_bytes) least = std::min(least, result.replay_seconds);
    }
    return least;
  }

 private:
  std::vector<plan::Simulation> results_;
};

}  // namespace gradrecomp::test
