#include "plan/chain/grouped_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "gradrecomp/plan/simulate.h"
#include "plan/chain/chain_search.h"
#include "plan/chain/relaxed_costs.h"
#include "plan/graph/choosable_values.h"
#include "support/plan/shape_graphs.h"

namespace gradrecomp::plan {
namespace {

constexpr double kRounding = 1e-9;  // of sums in another order, as a share of the step

/// The first half of its values so many times as large.
Graph lopsided(Graph graph, std::int64_t factor) {
  for (Value& v : graph.values) {
    const bool is_early = v.producer >= 0 && v.producer < static_cast<Index>(graph.ops.size() / 2);
    v.bytes *= is_early ? factor : 1;
  }
  return graph;
}

/// A graph with blocks and their menus.
class Chain {
 public:
  Chain(Graph graph, int num_blocks, CostModel cost = CostModel::seconds)
      : graph_(std::move(graph)),
        blocks_(make_block_graphs(graph_, find_blocks(graph_, num_blocks),
                                  std::vector(graph_.values.size(), Constraint::open),
                                  tiny_bytes(graph_))),
        menus_(blocks_, ReplayCost(graph_, cost),
               {.num_simulations = 300, .num_options = 16, .num_just_in_time = 4}) {}

  [[nodiscard]] std::span<const Menu* const> menus() const { return menus_.of_blocks(); }
  [[nodiscard]] std::int64_t plain_peak_bytes() const {
    return simulate(graph_, keep_all(graph_)).peak_bytes;
  }

 private:
  Graph graph_;
  std::vector<BlockGraph> blocks_;
  Menus menus_;
};

std::int64_t least_peak(const std::vector<ChainPoint>& front, double budget) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const ChainPoint& point : front) {
    if (point.cost <= budget) least = std::min(least, point.peak_bytes);
  }
  return least;
}

// Runs of dropped boundaries end with a group, which is all that may be lost.
TEST(GroupedChain, IsNearTheChainAsAWhole) {
  const Graph even = test::long_chain_graph(1000, 1);
  for (const Graph& graph : {even, lopsided(even, 20)}) {
    const Chain chain(graph, 300);
    ASSERT_GT(chain.menus().size(), 150U);
    for (const double budget : {0.02, 0.05, 0.1, 0.2}) {
      const ChainSize size{.max_cost = budget, .num_buckets = 1200, .num_open_points = 12};
      const std::int64_t whole = least_peak(solve_chain(chain.menus(), size), budget);
      const std::int64_t grouped = least_peak(solve_in_groups(chain.menus(), size), budget);
      EXPECT_LE(100 * (grouped - whole), chain.plain_peak_bytes()) << "at " << budget;
    }
  }
}

// Of the deepest plans, whose replays run through many blocks.
TEST(GroupedChain, HasPlansOfNestedReplays) {
  const Chain chain(test::long_chain_graph(1000, 2), 300);
  const ChainSize size{.max_cost = 1, .num_buckets = 400, .num_open_points = 12};
  ChainSize nested = size;
  nested.max_passes = 3;
  const std::int64_t once = least_peak(solve_in_groups(chain.menus(), size), 1);
  const std::int64_t many = least_peak(solve_in_groups(chain.menus(), nested), 1);
  EXPECT_LT(many, once);
}

TEST(GroupedChain, HasThePeaksAndCostsThatTheSimulatorHas) {
  const Graph graph = test::long_chain_graph(2000, 3);
  const ReplayCost replay_cost(graph, CostModel::seconds);
  const std::vector<Constraint> open(graph.values.size(), Constraint::open);
  const ChainSearch search(graph, replay_cost, open, Replays::many);
  ASSERT_GT(search.num_blocks(), 300U);  // or it is no chain that is solved in groups
  Simulator simulator(graph);
  for (const int passes : {0, 2}) {
    const std::vector<ChainPoint> points =
        search.front({.max_cost = 0.3, .num_open_points = 12, .max_passes = passes});
    ASSERT_GT(points.size(), 100U);
    for (std::size_t i = 0; i < points.size(); i += 20) {
      const KeptSet keep = search.kept(points[i]);
      const std::vector<Index> from = search.cached_from(points[i]);
      const Simulation found =
          from.empty() ? simulator.run(keep) : simulator.run(keep, simulator.defer(keep, from));
      EXPECT_NEAR(replay_cost.total(found), points[i].cost, kRounding);
      EXPECT_LE(std::abs(static_cast<double>(found.peak_bytes - points[i].peak_bytes)),
                0.002 * static_cast<double>(points[i].peak_bytes));
    }
  }
}

TEST(RelaxedCosts, AreSpentWhereBytesAreCheapest) {
  const auto menu = [](std::vector<Option> options) {
    Menu made;
    made.of(CutFate::kept, CutFate::kept) = std::move(options);
    return made;
  };
  const Menu cheap = menu({{.retained_bytes = 100, .cost = 0}, {.retained_bytes = 0, .cost = 1}});
  const Menu dear = menu({{.retained_bytes = 100, .cost = 0},
                          {.retained_bytes = 90, .cost = 0.5},  // above the line to the next one
                          {.retained_bytes = 20, .cost = 2}});
  const std::vector<const Menu*> menus{&dear, &cheap};
  EXPECT_EQ(relaxed_costs(menus, 0.5), (std::vector<double>{0, 0.5}));
  EXPECT_EQ(relaxed_costs(menus, 2), (std::vector<double>{1, 1}));
  EXPECT_EQ(relaxed_costs(menus, 9), (std::vector<double>{2, 1}));
}

}  // namespace
}  // namespace gradrecomp::plan
