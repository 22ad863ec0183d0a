#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "support/expect_error.h"
#include "support/plan/model_graphs.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;

Graph uniform_chain(int num_ops) {
  return test::chain_graph({.bytes = std::vector<std::int64_t>(num_ops, 10),
                            .seconds = std::vector<double>(num_ops, 1)});
}

/// Runs a plan on a chain in which value i is made by op i - 1 from value i - 1, all but value 0.
class ChainRun {
 public:
  ChainRun(const Graph& graph, const FixedPlan& plan) {
    for (const Sweep& sweep : plan.sweeps) sweeps_[sweep.target] = sweep.cached;
    for (std::size_t v = 0; v < plan.keep.size(); ++v) {
      if (plan.keep[v] != 0) held_.insert(static_cast<Index>(v));
    }
    held_.insert(0);
    for (const Event& event : graph.events) {
      if (event.kind == EventKind::demand) demand(event.id);
      if (event.kind == EventKind::release) held_.erase(event.id);
    }
  }

  int num_replays = 0;
  int most_held = 0;  ///< at any demand after the first stage's, what it asks for aside

 private:
  void demand(Index v) {
    if (!held_.contains(v)) replay(v);
    const auto below = std::ranges::count_if(held_, [&](Index u) { return 0 < u && u < v; });
    if (num_demands_++ > 1) most_held = std::max(most_held, static_cast<int>(below));
  }

  void replay(Index v) {
    num_replays += v - *std::prev(held_.lower_bound(v));
    held_.insert(v);
    for (const Index u : sweeps_.at(v)) held_.insert(u);
  }

  std::map<Index, std::vector<Index>> sweeps_;
  std::set<Index> held_;
  int num_demands_ = 0;
};

/// The fewest advances that reverse l steps with s snapshots, the first state among them.
int fewest_advances(int l, int s) {
  static std::map<std::pair<int, int>, int> known;
  if (l <= 1) return 0;
  if (s == 1) return l * (l - 1) / 2;
  if (const auto entry = known.find({l, s}); entry != known.end()) return entry->second;
  int least = l * l;
  for (int m = 1; m < l; ++m) {
    least = std::min(least, m + fewest_advances(l - m, s - 1) + fewest_advances(m, s));
  }
  return known[{l, s}] = least;
}

TEST(Revolve, ReplaysAsFewStepsOfAUniformChainAsBinomialCheckpointing) {
  for (int length = 1; length <= 40; ++length) {
    for (int num_checkpoints = 1; num_checkpoints <= 6; ++num_checkpoints) {
      const Graph graph = uniform_chain(length);
      const ChainRun run(graph, revolve_n(graph, num_checkpoints));
      // The first sweep, length - 1 advances, is the forward pass.
      EXPECT_EQ(run.num_replays, fewest_advances(length, num_checkpoints + 1) - (length - 1))
          << length << ' ' << num_checkpoints;
      EXPECT_LE(run.most_held, num_checkpoints) << length << ' ' << num_checkpoints;
    }
  }
}

TEST(Revolve, WithACheckpointPerStageKeepsAll) {
  const Graph graph = uniform_chain(7);
  const FixedPlan plan = revolve_n(graph, 100);
  EXPECT_EQ(plan.keep, keep_all(graph));
  EXPECT_TRUE(plan.sweeps.empty());
}

TEST(Revolve, RejectsNoCheckpoints) {
  expect_invalid([] { revolve_n(uniform_chain(3), 0); },
                 "num_checkpoints is 0, but must be at least 1");
}

TEST(Nested, HoldsLogarithmicallyManyBoundaries) {
  for (int log = 1; log <= 7; ++log) {
    const int length = 1 << log;
    const Graph graph = uniform_chain(length);
    const ChainRun run(graph, nested(graph));
    // Each of the log levels advances half of the chain; the forward pass is one of the sweeps.
    EXPECT_EQ(run.num_replays, length / 2 * log - (length - 1)) << length;
    EXPECT_LE(run.most_held, log) << length;
  }
}

TEST(Nested, SweepsCacheOnlyWhatTheyMakeAndCanHold) {
  const Graph graph = test::resnet_graph({2, 2, 2}, 1);
  for (const FixedPlan& plan : {nested(graph), revolve_n(graph, 1), revolve_n(graph, 3)}) {
    EXPECT_FALSE(plan.sweeps.empty());
    EXPECT_TRUE(std::ranges::is_sorted(plan.sweeps, {}, &Sweep::target));
    std::set<Index> cached;
    for (const Sweep& sweep : plan.sweeps) {
      EXPECT_TRUE(std::ranges::is_sorted(sweep.cached));
      EXPECT_TRUE(std::ranges::binary_search(sweep.cached, sweep.target));
      for (const Index v : sweep.cached) {
        EXPECT_EQ(graph.values[v].overwritten_by, -1);
        EXPECT_EQ(plan.keep[v], 0);
        EXPECT_TRUE(cached.insert(v).second) << v;
      }
    }
  }
}

TEST(Nested, PlansAStepWithoutOps) {
  Graph empty;
  empty.events = {{EventKind::seal}};
  EXPECT_EQ(nested(empty), FixedPlan{});
}

TEST(Nested, PlansAStepWithoutOpsThatSavesWhatLiesOutside) {
  Graph graph;
  graph.values = {{.saved = true}};
  graph.events = {
      {EventKind::save, 0}, {EventKind::seal}, {EventKind::demand, 0}, {EventKind::release, 0}};
  validate(graph);
  EXPECT_EQ(nested(graph), FixedPlan{.keep = {0}});
}

}  // namespace
}  // namespace gradrecomp::plan
