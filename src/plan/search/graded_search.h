#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "front.h"
#include "local_search.h"
#include "plan/chain/chain_search.h"

namespace gradrecomp::plan {

/// Finds the candidates that questions about one graph are answered from.
///
/// What it finds up to some overhead does not depend on the question, so that answers to larger
/// budgets know all that smaller ones know; see Note [ Monotone budgets ] in graded_search.cpp.
class GradedSearch {
 public:
  static constexpr auto kAnyPeak = std::numeric_limits<std::int64_t>::max();
  static constexpr auto kAnyOverhead = std::numeric_limits<double>::infinity();

  GradedSearch(const Graph& graph, const ReplayCost& replay_cost,
               const std::vector<Verdict>& verdicts, Replays replays = Replays::many);

  /// Looks for all plans of at most this overhead, in one of a few grades of effort.
  void climb(double max_overhead);

  /// Looks for plans of at most this peak until cheaper ones are out of the question.
  void descend(std::int64_t max_peak_bytes);

  /// Looks for all plans that replay no op twice, or for those of at most this peak; where the
  /// chain alone does not find the best, up to this overhead.
  void climb_once(double max_overhead = kAnyOverhead, std::int64_t max_peak_bytes = kAnyPeak);

  /// Keeps what was replayed for nothing.
  Candidate spare(const Candidate& chosen, std::int64_t max_peak_bytes);

  [[nodiscard]] const Front& front() const { return front_; }

 private:
  struct Grade;

  void add_policies();
  void add_chain(const Grade& grade, std::int64_t max_peak_bytes = kAnyPeak);
  void add_point(const ChainPoint& point);
  /// At every rung above `above` and up to `max_overhead`.
  void improve(double above, double max_overhead);

  const Graph& graph_;
  LocalSearch local_search_;
  ChainSearch chain_;
  Front front_;
  int num_simulations_ = 0;  ///< for each local search
};

}  // namespace gradrecomp::plan
