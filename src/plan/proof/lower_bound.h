#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// What no plan can do: peaks proven to need at least some overhead, and the other way round.
///
/// Source: Lagrangian relaxation; see Note [ Lower bounds ] in lower_bound.cpp.
class LowerBound {
 public:
  LowerBound(const Graph& graph, const ReplayCost& replay_cost);

  /// Tightens the bound near this overhead, by `num_cuts` minimum cuts.
  void tighten(double overhead, int num_cuts);

  /// Per cut of the last tightening: which ops its least solution replays.
  [[nodiscard]] const std::vector<std::vector<std::uint8_t>>& least_solutions() const {
    return least_solutions_;
  }

  /// No plan of at most this overhead has a lower peak.
  [[nodiscard]] std::int64_t peak_bytes(double overhead) const;
  /// No plan of at most this peak has a lower overhead.
  [[nodiscard]] double overhead(std::int64_t peak_bytes) const;

 private:
  /// peak + price * overhead >= value for every plan; peaks as shares of scale_bytes_.
  struct Line {
    double price = 0;
    double value = 0;
  };
  /// When a value needs its bytes; in moments.
  struct Life {
    static constexpr Index kNever = std::numeric_limits<Index>::max();
    Index death = kNever;       ///< the program has let go of it
    Index demand = kNever;      ///< the first after that
    Index demand_end = kNever;  ///< where the pass of that demand ends, if another comes
    Index release = 0;

    [[nodiscard]] bool is_demanded() const { return demand != kNever; }
    [[nodiscard]] Index end_if_replayed() const { return std::min(demand_end, release); }
  };
  struct Relaxed {
    double overhead = 0;
    std::vector<double> loads;  ///< per moment, as shares of scale_bytes_
  };

  void choose_moments(const std::vector<std::int64_t>& base_bytes);
  void find_lives();
  void end_pass(Index moment);
  void find_unsaved_release(Index v);
  [[nodiscard]] Index moment_behind(Index event) const;
  [[nodiscard]] bool is_free(const Value& v) const;
  [[nodiscard]] bool can_keep(const Value& v) const;
  [[nodiscard]] double weight(Index from, Index to) const;
  [[nodiscard]] double share(Index v) const;
  void set_weights();
  Relaxed relax(double price);
  Relaxed loads_of(const std::vector<std::uint8_t>& replayed) const;

  const Graph* graph_;
  double scale_bytes_ = 1;
  std::vector<double> cost_;  ///< per op
  std::vector<std::vector<Index>> readers_;
  std::vector<Life> lives_;
  std::vector<Index> moments_;  ///< events
  std::vector<double> base_;    ///< per moment: what lives under every plan
  std::vector<double> log_weights_;
  std::vector<double> weights_;
  std::vector<double> weights_before_;  ///< prefix sums
  std::vector<Line> lines_;
  std::vector<std::vector<std::uint8_t>> least_solutions_;
};

}  // namespace gradrecomp::plan
