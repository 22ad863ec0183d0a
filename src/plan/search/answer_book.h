#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "annealing.h"
#include "front.h"
#include "local_search.h"
#include "plan/chain/chain_search.h"
#include "plan/proof/lower_bound.h"

namespace gradrecomp::plan {

/// The answer to a question.
struct Answer {
  Candidate candidate;
  bool feasible = true;  ///< it meets the budget; else it is the nearest that was found
};

/// One front of a graph that every question is answered from, written as far as questions ask.
///
/// Its answers do not depend on what was asked before; see Note [ One answer book ] in
/// answer_book.cpp.
class AnswerBook {
 public:
  /// `effort`: how long to search where plans are far from their bound; 1 for about a second.
  AnswerBook(const Graph& graph, const ReplayCost& replay_cost,
             const std::vector<Constraint>& constraints, double effort);

  /// The least peak of at most this overhead.
  Answer within_overhead(double max_overhead);

  /// The least overhead of at most this peak.
  Answer within_peak(std::int64_t max_peak_bytes);

  /// Writes all of it.
  void finish();

  [[nodiscard]] const Front& front() const { return front_; }
  [[nodiscard]] LowerBound& bound() { return bound_; }

 private:
  static constexpr double kNothing = -1;  // below any overhead

  [[nodiscard]] bool is_written_to(double overhead) const { return written_to_ >= overhead; }
  [[nodiscard]] bool is_finished() const;
  void write_next_chapter();
  void add_policies();
  [[nodiscard]] int num_buckets() const;
  [[nodiscard]] int num_passes(int wanted, double max_overhead) const;
  void add_chain(double max_overhead, int max_passes);
  void add_points(const std::vector<ChainPoint>& points);
  void add_cuts(double max_overhead);
  void search(double max_overhead, double effort);
  [[nodiscard]] std::vector<Candidate> starts(double max_overhead) const;
  void search_in_rounds(AnnealingGoal goal, int most_rounds);
  void search_from(Candidate start, const AnnealingGoal& goal);
  void add(Candidate candidate);
  void add_found(const IncrementalSimulator& plan, const Outcome& outcome);
  [[nodiscard]] int num_moves(double gap);
  [[nodiscard]] Candidate spared(std::size_t position);
  [[nodiscard]] double gap(double max_overhead) const;

  const Graph& graph_;
  const ReplayCost& replay_cost_;
  std::vector<Constraint> constraints_;
  LocalSearch local_search_;
  ChainSearch chain_;
  LowerBound bound_;
  std::optional<Annealing> annealing_;  ///< once it is needed
  Front front_;
  double effort_;
  double events_;  ///< that a simulation goes through, and its ops
  /// Replays leave unsaved values that several ops read behind, while one wants them; empty: the
  /// graph has none.
  std::vector<Index> parents_cached_;
  bool replays_may_be_free_ = false;
  std::int64_t plain_peak_bytes_ = 0;
  std::size_t chapter_ = 0;       ///< to be written next
  double written_to_ = kNothing;  ///< the highest overhead of the chapters written
  double above_ = kNothing;       ///< what is being written costs more than this
};

}  // namespace gradrecomp::plan
