#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// The graph of one model at any batch size, from steps recorded at two of them.
///
/// Bytes, FLOPs and seconds are each a straight line through the two recordings: what grows with
/// the batch does so in proportion, and what does not (parameter gradients, statistics, launch
/// times) stays. Kernels that choose another algorithm at another size break that rule, so a plan
/// for a predicted graph is to be confirmed by a real step.
///
///     BatchFit fit(recorded_at_8, 8, recorded_at_16, 16);
///     Plan plan = make_plan(fit.graph_at(48), {.max_overhead = 0.1});
///
/// Guarantees: the recorded graphs at their own batch sizes; bytes are never negative, and whole
///             multiples of 512 or 64 if all recorded ones are.
/// Threads:    safe to use from several threads.
class GRADRECOMP_API BatchFit {
 public:
  /// Throws:  std::invalid_argument if a graph is not valid, the batch sizes do not rise from 1 or
  ///          more, or the two differ in ops, wiring or the order of events, naming what differs
  ///          first. Only the number of `outside` events may differ.
  BatchFit(const Graph& small, Index small_batch, const Graph& large, Index large_batch);

  /// Its signature is 0 unless it is one of the recorded graphs; values, ops and stages have the
  /// same indices at every batch size, so that a kept set fits all of them.
  /// Throws:  std::invalid_argument if `batch` is below 1.
  [[nodiscard]] Graph graph_at(Index batch) const;

  /// Seconds of a plain step. Below the smaller recorded batch no sample is faster than there, as a
  /// line through two measurements may fall below 0 for few samples.
  [[nodiscard]] double step_seconds_at(Index batch) const;

  [[nodiscard]] Index small_batch() const { return small_batch_; }
  [[nodiscard]] Index large_batch() const { return large_batch_; }

 private:
  [[nodiscard]] double line(double small, double large, Index batch) const;
  [[nodiscard]] std::int64_t bytes_line(std::int64_t small, std::int64_t large, Index batch) const;
  [[nodiscard]] Event event_line(const Event& small, const Event& large, Index batch) const;
  void fit_op(std::size_t i, Index batch, Op& op) const;
  void find_granularity();

  Graph small_;
  Graph large_;
  Index small_batch_;
  Index large_batch_;
  std::vector<Event> small_events_;  ///< one for each of large_events_
  std::vector<Event> large_events_;
  std::int64_t granularity_ = 1;
};

}  // namespace gradrecomp::plan
