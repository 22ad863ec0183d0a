#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/simulate.h"
#include "support/plan/nested_brute_force.h"
#include "support/plan/random_chain.h"

namespace gradrecomp::plan {
namespace {

using test::NestedBruteForce;

Graph uniform_chain(int num_ops) {
  return test::chain_graph({.bytes = std::vector<std::int64_t>(num_ops, 10),
                            .seconds = std::vector<double>(num_ops, 1)});
}

std::size_t num_made(const Graph& graph) {
  return std::ranges::count_if(graph.values, [](const Value& v) { return v.producer >= 0; });
}

/// Replay seconds of plans above the least, as shares of forward.
struct Excess {
  int num_pairs = 0;
  int num_above = 0;
  int num_unreached = 0;  ///< bounds that a schedule meets and no plan found
  double sum = 0;
  double worst = 0;

  void add(const Graph& graph, const NestedBruteForce& all, std::int64_t max_peak_bytes) {
    const Plan plan = make_plan(graph, {.max_peak_bytes = max_peak_bytes});
    ++num_pairs;
    num_unreached += plan.feasible ? 0 : 1;
    if (!plan.feasible) return;
    const double seconds = simulate(graph, plan.keep, plan.sweeps).replay_seconds;
    const double forward_seconds = graph.step_seconds / 3;
    const double excess = (seconds - all.least_replay_seconds(max_peak_bytes)) / forward_seconds;
    EXPECT_GE(excess, -1e-9);
    num_above += excess > 1e-9 ? 1 : 0;
    sum += excess;
    worst = std::max(worst, excess);
  }

  [[nodiscard]] double mean() const { return sum / (num_pairs - num_unreached); }

  void print(const char* what) const {
    std::cout << what << ": " << num_pairs << " pairs, " << num_unreached << " unreached, "
              << num_above << " above the least, by " << 100 * mean() << "% of forward on average, "
              << 100 * worst << "% at worst\n";
  }
};

/// Bounds spread evenly from the least peak of any schedule up to the plain step's.
void add_bounds(const Graph& graph, Excess& excess) {
  constexpr int kNumBounds = 5;
  const NestedBruteForce all(graph);
  const std::int64_t least = all.front().begin()->first;
  const std::int64_t most = all.front().rbegin()->first;
  for (int i = 0; i < kNumBounds; ++i)
    excess.add(graph, all, least + i * (most - least) / kNumBounds);
}

TEST(NestedPlans, AreTheBestOfShortChains) {
  Excess excess;
  for (int length = 3; length <= 4; ++length) {
    for (int seed = 0; seed < 6; ++seed)
      add_bounds(test::random_chain_of_ops(length, seed), excess);
  }
  excess.print("chains of 3 and 4");
  EXPECT_EQ(excess.num_unreached, 0);
  EXPECT_EQ(excess.num_above, 0);
}

TEST(NestedPlans, AreNearTheBestOfChains) {
  Excess excess;
  for (int length = 5; length <= 7; ++length) {
    for (int seed = 0; seed < 6; ++seed)
      add_bounds(test::random_chain_of_ops(length, seed), excess);
  }
  excess.print("chains of 5 to 7");
  EXPECT_LE(excess.num_unreached, excess.num_pairs / 50);
  EXPECT_LE(excess.mean(), 0.002);
}

TEST(NestedPlans, AreNearTheBestOfChainsOfSmallBlocks) {
  Excess excess;
  for (int seed = 0; seed < 20; ++seed) {
    const Graph graph =
        test::RandomChain({.num_blocks = 4, .least_ops = 1, .most_ops = 2}, seed).draw();
    if (num_made(graph) <= 8) add_bounds(graph, excess);
  }
  excess.print("chains of blocks");
  EXPECT_GE(excess.num_pairs, 50);
  EXPECT_LE(excess.num_unreached, excess.num_pairs / 20);
  EXPECT_LE(excess.mean(), 0.002);
}

TEST(NestedPlans, NeedAsFewReplaysOfAUniformChainAsBinomialCheckpointing) {
  for (const int length : {6, 10, 16}) {
    const Graph graph = uniform_chain(length);
    for (Index num_checkpoints = 1; num_checkpoints <= 5; ++num_checkpoints) {
      const FixedPlan revolve = revolve_n(graph, num_checkpoints);
      const Simulation result = simulate(graph, revolve.keep, revolve.sweeps);
      const Plan plan = make_plan(graph, {.max_peak_bytes = result.peak_bytes});
      EXPECT_TRUE(plan.feasible);
      EXPECT_LE(plan.num_replayed_ops, result.num_replayed_ops) << length << ' ' << num_checkpoints;
    }
  }
}

TEST(NestedPlans, OfALongUniformChainNeedNotManyMoreReplaysThanBinomialCheckpointing) {
  const Graph graph = uniform_chain(40);
  for (Index num_checkpoints = 2; num_checkpoints <= 6; ++num_checkpoints) {
    const FixedPlan revolve = revolve_n(graph, num_checkpoints);
    const Simulation result = simulate(graph, revolve.keep, revolve.sweeps);
    const Plan plan = make_plan(graph, {.max_peak_bytes = result.peak_bytes});
    std::cout << "peak " << result.peak_bytes << ": " << plan.num_replayed_ops
              << " replays, revolve " << result.num_replayed_ops << '\n';
    EXPECT_TRUE(plan.feasible);
    EXPECT_LE(plan.num_replayed_ops, result.num_replayed_ops * 9 / 8) << num_checkpoints;
  }
}

// One more forward pass: segments of falling length, sqrt(2 n) values high.
TEST(Plans, OfAUniformChainNeedTheSquareRootOfItsLength) {
  for (const int length : {16, 36, 64, 100}) {
    const Plan plan = make_plan(uniform_chain(length), {.max_overhead = 1.0 / 3});
    const double height = static_cast<double>(plan.predicted_peak_bytes) / 10;
    EXPECT_LE(height, std::sqrt(2.0 * length) + 2) << length;
  }
}

}  // namespace
}  // namespace gradrecomp::plan
