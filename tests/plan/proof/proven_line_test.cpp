#include "plan/proof/proven_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "plan/proof/lower_bound.h"
#include "plan/proof/prover.h"
#include "support/expect_error.h"
#include "support/plan/brute_force.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_graph.h"

namespace gradrecomp::plan {
namespace {

using test::RandomGraph;

/// A few figures of a plan, as a Prover reads them.
Plan plan_of(const Simulation& result, const ReplayCost& replay_cost) {
  Plan plan;
  plan.cost = replay_cost.model();
  plan.predicted_peak_bytes = result.peak_bytes;
  plan.predicted_overhead_seconds = replay_cost.seconds_ratio(result.replay_seconds);
  plan.predicted_overhead_flops = replay_cost.flops_ratio(result.replay_flops);
  return plan;
}

/// What is proven of any plan of the graph holds for all of its plans.
void expect_no_plan_below(const Graph& graph, CostModel cost) {
  const ReplayCost replay_cost(graph, cost);
  LowerBound bound(graph, replay_cost);
  for (const double overhead : {0.0, 0.05, 0.2, 0.5}) bound.tighten(overhead, 12);
  Prover prover(graph, replay_cost, bound);
  const test::BruteForce all(graph);
  for (const Simulation& result : all.results()) {
    Plan plan = plan_of(result, replay_cost);
    prover.prove(plan);
    const double overhead = plan.predicted_overhead(cost);
    ASSERT_LE(plan.proven_peak_bytes, plan.predicted_peak_bytes);
    ASSERT_LE(plan.proven_overhead, overhead);
    for (const Simulation& other : all.results()) {
      if (replay_cost.overhead(other) <= overhead) {
        ASSERT_GE(other.peak_bytes, plan.proven_peak_bytes);
      }
      if (other.peak_bytes <= plan.predicted_peak_bytes) {
        ASSERT_GE(replay_cost.overhead(other), plan.proven_overhead);
      }
    }
  }
}

TEST(ProvenLine, NoPlanOfASmallGraphLiesBelow) {
  for (int seed = 0; seed < 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = RandomGraph({.num_ops = 6}, seed).draw();
    expect_no_plan_below(graph, CostModel::seconds);
    expect_no_plan_below(graph, CostModel::flops);
  }
}

TEST(ProvenLine, NoPlanOfAGraphFullOfInPlaceOpsAndPassesLiesBelow) {
  const test::RandomGraphOptions options{.num_ops = 8,
                                         .in_place_chance = 60,
                                         .snapshot_chance = 50,
                                         .must_keep_chance = 20,
                                         .pass_end_chance = 20};
  for (int seed = 0; seed < 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    expect_no_plan_below(RandomGraph(options, seed).draw(), CostModel::seconds);
  }
}

TEST(ProvenLine, SaysWhatTheSearchFound) {
  for (const Graph& graph : {test::resnet_graph({3, 8, 36, 3}, 4), test::bert_graph(12, 2, 64)}) {
    for (const CostModel cost : {CostModel::seconds, CostModel::flops}) {
      const ReplayCost replay_cost(graph, cost);
      LowerBound bound(graph, replay_cost);
      bound.tighten(0.05, 20);
      const Proof proof = bound.proof_of(bound.best_line_at_overhead(0.05));
      const ProvenLine line(graph, replay_cost, proof, "proof");
      const auto searched = static_cast<double>(bound.peak_bytes(0.05));
      EXPECT_NEAR(static_cast<double>(line.peak_bytes(0.05)), searched, 1e-5 * searched);
    }
  }
}

TEST(ProvenLine, MoreOverheadProvesLess) {
  const Graph graph = test::bert_graph(12, 2, 64);
  const ReplayCost replay_cost(graph, CostModel::seconds);
  LowerBound bound(graph, replay_cost);
  bound.tighten(0.05, 20);
  const ProvenLine line(graph, replay_cost, bound.proof_of(bound.best_line_at_overhead(0.05)),
                        "proof");
  for (int i = 0; i < 10; ++i)
    EXPECT_GT(line.peak_bytes(0.005 * i), line.peak_bytes(0.005 * (i + 1)));
  EXPECT_EQ(line.peak_bytes(1e9), 0);
  EXPECT_EQ(line.overhead(std::int64_t{1} << 50), 0);
}

TEST(ProvenLine, WithoutMomentsOrPriceNothingIsProven) {
  const Graph graph = RandomGraph({}, 1).draw();
  const ReplayCost replay_cost(graph, CostModel::seconds);
  const ProvenLine none(graph, replay_cost, {}, "proof");
  EXPECT_EQ(none.peak_bytes(0), 0);
  EXPECT_EQ(none.overhead(0), 0);
}

TEST(ProvenLine, RefusesWhatIsNoProof) {
  const Graph graph = RandomGraph({}, 1).draw();
  const ReplayCost replay_cost(graph, CostModel::seconds);
  const auto end = static_cast<Index>(graph.events.size());
  const auto expect_refused = [&](const Proof& proof, const std::string& part) {
    test::expect_invalid([&] { ProvenLine(graph, replay_cost, proof, "peak_proof"); }, part);
  };
  expect_refused({.moments = {{end, 1}}}, "Plan: peak_proof.moments is " + std::to_string(end));
  expect_refused({.moments = {{2, 1}, {2, 1}}}, "must be ascending events of the graph");
  expect_refused({.moments = {{0, 0}}}, "Plan: peak_proof.weights is 0, but must be above 0");
  constexpr std::int64_t kMost = ProvenLine::kHighestSumOfWeights;
  expect_refused({.moments = {{0, kMost}, {1, 1}}}, "peak_proof.weights is 1");
  expect_refused({.moments = {{0, 1}}, .price = -1}, "Plan: peak_proof.price is -1");
  expect_refused({.moments = {{0, 1}}, .price = ProvenLine::kHighestPrice + 1}, "from 0 to 2^55");
}

}  // namespace
}  // namespace gradrecomp::plan
