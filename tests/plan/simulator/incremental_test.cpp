#include "plan/simulator/incremental.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "gradrecomp/plan/kept_set.h"
#include "plan/graph/choosable_values.h"
#include "plan/graph/wanted_values.h"
#include "support/plan/random_graph.h"
#include "support/plan/shape_graphs.h"

namespace gradrecomp::plan {
namespace {

/// Makes random moves and looks whether both simulators say the same.
class Walk {
 public:
  Walk(Graph graph, std::uint64_t seed)
      : graph_(std::move(graph)),
        random_(seed),
        simulator_(graph_),
        incremental_(graph_),
        keep_(keep_all(graph_)),
        from_(graph_.values.size(), 0) {
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      if (can_choose(graph_.values[v])) open_.push_back(static_cast<Index>(v));
    }
    keep_ = only_wanted(graph_, keep_);
    incremental_.start(keep_, from_);
    target_bytes_ = incremental_.now().peak_bytes / 2;
    incremental_.aim_at(target_bytes_);
  }

  /// How often an attempt was taken.
  int run(int num_moves) {
    int num_accepted = 0;
    for (int i = 0; i < num_moves && !open_.empty() && !::testing::Test::HasFailure(); ++i) {
      const std::vector<Move> moves = draw();
      expect_same(incremental_.attempt(moves), moves);
      if (below(3) != 0) continue;
      incremental_.accept();
      apply(moves);
      ++num_accepted;
    }
    return num_accepted;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  std::vector<Move> draw() {
    std::vector<Move> moves;
    for (std::size_t i = 0; i < 1 + below(3); ++i) {
      const Index v = open_[below(open_.size())];
      if (std::ranges::count(moves, v, &Move::value) > 0) continue;
      const bool keep = below(2) == 0;
      auto from = static_cast<Index>(below(2) == 0 ? 0 : below(graph_.events.size()));
      if (below(3) == 0) from = ~from;
      moves.push_back({v, keep, keep ? from_[v] : from});
    }
    return moves;
  }

  void apply(const std::vector<Move>& moves) {
    for (const Move& move : moves) {
      keep_[move.value] = move.keep ? 1 : 0;
      from_[move.value] = move.cached_from;
    }
  }

  /// Sweeps listed by target do not tell two demands of it apart, so that they are left out here.
  void expect_same(const Outcome& outcome, const std::vector<Move>& moves) {
    const KeptSet keep = keep_;
    const std::vector<Index> from = from_;
    apply(moves);
    IncrementalSimulator fresh(graph_);
    fresh.aim_at(target_bytes_);
    fresh.start(only_wanted(graph_, keep_), from_);
    EXPECT_EQ(outcome.peak_bytes, fresh.now().peak_bytes);
    EXPECT_EQ(outcome.excess_bytes, fresh.now().excess_bytes);
    EXPECT_EQ(outcome.cost.num_replayed_ops, fresh.now().cost.num_replayed_ops);
    EXPECT_NEAR(outcome.cost.replay_seconds, fresh.now().cost.replay_seconds, 1e-6);
    const bool defers = std::ranges::any_of(from_, [](Index t) { return t != 0; });
    if (!defers) {
      const Simulation result = simulator_.run(only_wanted(graph_, keep_));
      EXPECT_EQ(outcome.peak_bytes, result.peak_bytes);
      EXPECT_EQ(outcome.cost.num_replayed_ops, result.num_replayed_ops);
    }
    keep_ = keep;
    from_ = from;
  }

  Graph graph_;
  std::mt19937_64 random_;
  Simulator simulator_;
  IncrementalSimulator incremental_;
  KeptSet keep_;
  std::vector<Index> from_;
  std::vector<Index> open_;
  std::int64_t target_bytes_ = 0;
};

TEST(IncrementalSimulator, SaysWhatTheSimulatorSaysOfRandomGraphs) {
  int num_accepted = 0;
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const test::RandomGraphOptions options{.num_ops = 10 + seed, .pass_end_chance = seed % 3};
    num_accepted += Walk(test::RandomGraph(options, seed).draw(), seed).run(40);
  }
  EXPECT_GE(num_accepted, 500);
}

TEST(IncrementalSimulator, SaysWhatTheSimulatorSaysOfGraphsOfAShape) {
  Walk(test::lstm_graph(20), 1).run(100);
  Walk(test::dag_graph(150, 15, 1), 2).run(100);
  Walk(test::skip_graph(15, 1), 3).run(100);
  Walk(test::long_chain_graph(200, 1), 4).run(100);
}

}  // namespace
}  // namespace gradrecomp::plan
