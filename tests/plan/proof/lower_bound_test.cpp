#include "plan/proof/lower_bound.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/simulate.h"
#include "support/plan/brute_force.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_graph.h"

namespace gradrecomp::plan {
namespace {

void expect_no_plan_below(const Graph& graph, CostModel cost) {
  const ReplayCost replay_cost(graph, cost);
  LowerBound bound(graph, replay_cost);
  for (const double overhead : {0.0, 0.05, 0.2, 0.5}) bound.tighten(overhead, 12);
  const test::BruteForce all(graph);
  for (const Simulation& result : all.results()) {
    ASSERT_GE(result.peak_bytes, bound.peak_bytes(replay_cost.overhead(result)));
  }
}

TEST(Bound, NoPlanOfASmallGraphLiesBelow) {
  for (int seed = 0; seed < 150 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = test::RandomGraph({.num_ops = 7}, seed).draw();
    expect_no_plan_below(graph, CostModel::seconds);
    expect_no_plan_below(graph, CostModel::flops);
  }
}

TEST(Bound, NoPlanOfAGraphOfSeveralPassesLiesBelow) {
  for (int seed = 0; seed < 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const test::RandomGraphOptions options{.num_ops = 7, .pass_end_chance = 20};
    expect_no_plan_below(test::RandomGraph(options, seed).draw(), CostModel::seconds);
  }
}

TEST(Bound, NoPlanOfAGraphFullOfInPlaceOpsLiesBelow) {
  const test::RandomGraphOptions options{
      .num_ops = 9, .in_place_chance = 60, .snapshot_chance = 50, .must_keep_chance = 20};
  for (int seed = 0; seed < 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    expect_no_plan_below(test::RandomGraph(options, seed).draw(), CostModel::seconds);
  }
}

TEST(Bound, IsNearThePlansOfATransformer) {
  const Graph graph = test::bert_graph(12, 2, 64);
  for (const double overhead : {0.02, 0.05, 0.1}) {
    const Plan plan = make_plan(graph, {.max_overhead = overhead, .cost = CostModel::flops});
    EXPECT_LE(plan.proven_peak_bytes, plan.predicted_peak_bytes);
    EXPECT_LE(plan.proven_overhead, plan.predicted_overhead_flops);
    EXPECT_GE(plan.proven_peak_bytes, plan.predicted_peak_bytes * 9 / 10) << overhead;
  }
}

TEST(Bound, MoreOverheadProvesLess) {
  const Graph graph = test::resnet_graph({2, 2, 2, 2}, 1);
  const ReplayCost replay_cost(graph, CostModel::seconds);
  LowerBound bound(graph, replay_cost);
  bound.tighten(0.05, 20);
  auto last = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(bound.peak_bytes(0.02 * i), last);
    last = bound.peak_bytes(0.02 * i);
  }
}

}  // namespace
}  // namespace gradrecomp::plan
