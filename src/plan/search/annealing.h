#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "alike_values.h"
#include "front.h"
#include "gradrecomp/plan/selection.h"
#include "plan/simulator/incremental.h"

namespace gradrecomp::plan {

/// The goal of a search.
struct AnnealingGoal {
  double max_overhead = 0;
  std::int64_t bound_bytes = 0;  ///< no plan of that overhead has a lower peak
  int num_moves = 0;
  double first_target = 0.5;  ///< of the first cycle, from the bound (0) to the best peak (1)
  bool any_time = false;      ///< replays may leave values behind from any demand on
  int copies_every = 0;       ///< of so many moves one copies layers, if it can; 0: none does
  std::uint64_t seed = 1;     ///< of the random numbers
};

/// Improves plans by random moves, dearer or higher ones among them at first.
///
/// See Note [ Annealing ] in annealing.cpp.
class Annealing {
 public:
  /// Is told of every plan on the way that is lower than all before and of those within the budget.
  using Report = std::function<void(const IncrementalSimulator& plan, const Outcome& outcome)>;

  /// `constraints`: values not open are left as they are.
  Annealing(const Graph& graph, const ReplayCost& replay_cost,
            const std::vector<Constraint>& constraints);

  /// Looks for plans of lower peak, from `start` on.
  void run(const Candidate& start, const AnnealingGoal& goal, const Report& report);

  /// About how many moves a second the search tries.
  [[nodiscard]] double moves_per_second() const { return moves_per_second_; }
  [[nodiscard]] std::size_t num_open() const { return open_.size(); }

 private:
  struct Schedule;
  struct Energy;

  void run_cycle(const Schedule& schedule, const Report& report);
  void aim(const Schedule& schedule, double progress);
  [[nodiscard]] Energy energy(const Outcome& outcome, const Schedule& schedule) const;
  void draw_moves();
  [[nodiscard]] bool copy_layers(std::size_t to);
  [[nodiscard]] std::size_t one_like(std::size_t position, Likeness likeness);
  void add_copy(std::size_t from, std::size_t to);
  [[nodiscard]] Index time_after_copy(std::size_t from, std::size_t to) const;
  void draw_timing(Index v);
  [[nodiscard]] Index time_for(Index v);
  void add_flip(Index v, bool keep);
  [[nodiscard]] Index near(std::size_t position);
  [[nodiscard]] Index neighbour(Index v);
  [[nodiscard]] std::vector<Index> timing_of(const Candidate& candidate) const;
  std::size_t below(std::size_t n) { return random_() % n; }
  double chance() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  void find_neighbours(const Graph& graph);

  const ReplayCost& replay_cost_;
  IncrementalSimulator simulator_;
  std::vector<Index> open_;                     ///< values worth a move
  std::vector<std::size_t> position_;           ///< per value: in open_, from 1; 0 if it is not
  std::vector<std::vector<Index>> neighbours_;  ///< per open value: open ones of the same ops
  AlikeValues alike_;                           ///< among the open ones, by position
  std::vector<Index> first_demand_;             ///< per value: its event; 0 if there is none
  std::vector<std::size_t> demanded_at_;        ///< per event: the same of what it first demands
  std::vector<std::uint8_t> saved_;
  Index backward_begin_ = 0;
  double moves_per_second_ = 0;
  std::mt19937_64 random_{1};
  std::vector<Move> moves_;

  AnnealingGoal goal_;
  std::int64_t best_bytes_ = 0;
  KeptSet best_keep_;
  std::vector<Index> best_from_;
};

}  // namespace gradrecomp::plan
