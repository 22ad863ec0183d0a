#pragma once

#include <cstdint>
#include <vector>

#include "blocks.h"
#include "gradrecomp/plan/policies.h"
#include "pricing.h"

namespace gradrecomp::plan {

/// A step of a block's way from keeping everything to keeping nothing.
struct DropStep {
  std::vector<Index> dropped;  ///< values that go in this step
  double price = 0;            ///< cost per byte saved, never falling from step to step
  std::int64_t bytes = 0;      ///< that the step saves
};

/// Whether what a block hands on to later blocks stays kept.
enum class Output : std::uint8_t { kept, dropped };

/// Finds in which order a block best drops its values, the cheapest bytes first.
///
/// Starts from every value kept, unsaved ones included: those count only once a replay reads them,
/// and are often the better ones to keep.
class DropOrder {
 public:
  DropOrder(const Graph& graph, const Pricing& pricing);

  std::vector<DropStep> find(const Block& block, Output output);

 private:
  struct State {
    std::int64_t held_bytes = 0;
    double cost = 0;
  };
  struct Move {
    std::vector<Index> dropped;
    State after;
    double price = 0;
  };

  void start(const Block& block, Output output);
  State evaluate();
  [[nodiscard]] bool held(Index v) const { return kept_[v] != 0 && wanted_[v] > 0; }
  [[nodiscard]] bool can_drop(Index v) const;
  Move drop_with_followers(Index v, const State& now);
  bool best_move(const State& now, Move& best);
  static std::vector<DropStep> convex(const std::vector<DropStep>& steps,
                                      const std::vector<State>& states);

  const Graph& graph_;
  std::vector<double> cost_;
  std::vector<std::uint8_t> kept_;
  std::vector<Index> wanted_;
  std::vector<Index> wanted_outside_;
  std::vector<std::uint8_t> fixed_;
  Block block_;
  std::vector<Index> values_;
};

}  // namespace gradrecomp::plan
