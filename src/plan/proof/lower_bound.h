#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/proof.h"
#include "plan/bounds/relaxation.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// Searches for lines under which no plan lies: peaks that need at least some overhead, and the
/// other way round.
///
/// Source: Lagrangian relaxation; see Note [ Lower bounds ] in relaxation.cpp.
class LowerBound {
 public:
  LowerBound(const Graph& graph, const ReplayCost& replay_cost);

  /// Tightens the bound near this overhead, by `num_cuts` minimum cuts. Goes on from the weights of
  /// the last tightening, which may have come to rest on few moments.
  void tighten(double overhead, int num_cuts);
  /// The same from the loads of the plain step.
  void tighten_anew(double overhead, int num_cuts);

  /// Per cut of the last tightening: which ops its least solution replays.
  [[nodiscard]] const std::vector<std::vector<std::uint8_t>>& least_solutions() const {
    return least_solutions_;
  }

  /// No plan of at most this overhead has a lower peak.
  [[nodiscard]] std::int64_t peak_bytes(double overhead) const;

  /// A graph without events has none.
  [[nodiscard]] bool has_lines() const { return !lines_.empty(); }
  /// The line that proves the highest peak at this overhead.
  [[nodiscard]] std::size_t best_line_at_overhead(double overhead) const;
  /// The line that proves the highest overhead at this peak.
  [[nodiscard]] std::size_t best_line_at_peak(std::int64_t peak_bytes) const;
  /// A line's weights and price in whole numbers, which prove nearly the same.
  [[nodiscard]] Proof proof_of(std::size_t line) const;

 private:
  /// peak + price * overhead >= value for every plan; peaks as shares of scale_bytes_.
  struct Line {
    double price = 0;
    double value = 0;
    std::vector<double> weights = {};

    [[nodiscard]] double peak(double overhead) const;
    [[nodiscard]] double overhead(double peak) const;
  };
  struct Relaxed {
    double overhead = 0;
    std::vector<double> loads;  ///< per moment, as shares of scale_bytes_
  };

  void choose_moments();
  void add_floor();
  void begin_with_plain_loads();
  [[nodiscard]] Index moment_after(Index event) const;
  [[nodiscard]] double share(Index v) const;
  void set_weights();
  Relaxed relax(double price);
  [[nodiscard]] Relaxed loads_of(const std::vector<std::uint8_t>& replayed) const;

  const Graph* graph_;
  Relaxation relaxation_;
  double scale_bytes_ = 1;
  std::vector<double> cost_;          ///< per op
  std::vector<Index> moments_;        ///< events
  std::vector<Index> moments_after_;  ///< per event: the first moment after it
  std::vector<double> base_;          ///< per moment: what lives under every plan
  std::vector<double> log_weights_;
  std::vector<double> weights_;
  std::vector<double> weights_before_;  ///< prefix sums
  std::vector<Line> lines_;
  std::vector<std::vector<std::uint8_t>> least_solutions_;
};

}  // namespace gradrecomp::plan
