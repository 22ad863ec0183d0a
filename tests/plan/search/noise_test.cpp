// Conformance P4: measured seconds are noisy. Plans made from them are nearly as good, and those in
// FLOPs do not depend on them.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/predict.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_chain.h"
#include "support/plan/random_graph.h"
#include "support/plan/recorded_graphs.h"
#include "support/plan/shape_graphs.h"
#include "support/plan/skip_graphs.h"

namespace gradrecomp::plan {
namespace {

constexpr double kLittle = 0.05;  // effort, as many plans are made

/// `graph` as a profiler would have it whose seconds are off by up to `share` per op.
Graph with_noise(Graph graph, double share, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> factor(1 - share, 1 + share);
  for (Op& op : graph.ops) {
    const double change = op.replay_seconds * (factor(random) - 1);
    op.forward_seconds += change;
    op.replay_seconds += change;
    graph.step_seconds += change;
  }
  return graph;
}

/// What a plan really does whose profile was off by 20%, against the best at its real overhead.
void expect_nearly_best(const Graph& graph) {
  for (const double max_overhead : {0.03, 0.1, 0.2}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE("budget " + std::to_string(max_overhead) + ", seed " + std::to_string(seed));
      const Plan noisy = make_plan(with_noise(graph, 0.2, seed),
                                   {.max_overhead = max_overhead, .effort = kLittle});
      const Plan real = predict(graph, noisy);
      ASSERT_GT(real.num_replayed_ops, 0);
      const Plan best =
          make_plan(graph, {.max_overhead = real.predicted_overhead_seconds, .effort = kLittle});
      EXPECT_LE(real.predicted_peak_bytes, 1.05 * best.predicted_peak_bytes);
      EXPECT_LE(real.predicted_overhead_seconds, 1.2 * max_overhead);
    }
  }
}

TEST(Noise, P4OfAFifthCostsAResNetAtMostFivePercent) {
  expect_nearly_best(test::resnet_graph({2, 2, 2, 2}, 2));
}

TEST(Noise, P4OfAFifthCostsATransformerAtMostFivePercent) {
  expect_nearly_best(test::bert_graph(6, 2, 128));
}

TEST(Noise, P4OfAFifthCostsAUNetAtMostFivePercent) { expect_nearly_best(test::unet_graph(3, 1)); }

/// `graph` as another machine would have it, which is slower by any factor for each op.
Graph on_another_machine(Graph graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> times(0.1, 10);
  graph.step_seconds *= times(random);
  for (Op& op : graph.ops) {
    op.forward_seconds *= times(random);
    op.replay_seconds *= times(random);
    if (op.joins) op.joined_seconds = op.replay_seconds / (1 + times(random));
  }
  return graph;
}

/// In small ones many plans have the same peak and FLOPs.
std::vector<Graph> unlike_graphs() {
  std::vector<Graph> graphs{test::random_chain_of_ops(12, 5), test::unet_graph(3, 1),
                            test::dag_graph(40, 8, 3), test::recorded_graph("unet")};
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    graphs.push_back(test::RandomGraph({.num_ops = 8}, seed).draw());
  }
  return graphs;
}

/// What no measured second may change.
void expect_same_choice(const Graph& graph, Plan plan, const Plan& first) {
  EXPECT_EQ(plan.keep, first.keep);
  EXPECT_EQ(plan.sweeps, first.sweeps);
  EXPECT_EQ(plan.predicted_peak_bytes, first.predicted_peak_bytes);
  EXPECT_EQ(plan.proven_peak_bytes, first.proven_peak_bytes);
  EXPECT_EQ(plan.predicted_overhead_flops, first.predicted_overhead_flops);
  EXPECT_DOUBLE_EQ(plan.predicted_overhead_seconds,
                   predict(graph, plan).predicted_overhead_seconds);
}

TEST(Noise, P4PlansInFlopsAreTheSameOnEveryMachine) {
  for (const Graph& graph : unlike_graphs()) {
    for (const double max_overhead : {0.0, 0.05, 0.3}) {
      const Request request{
          .max_overhead = max_overhead, .cost = CostModel::flops, .effort = kLittle};
      const Plan first = make_plan(graph, request);
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const Graph other = on_another_machine(graph, seed);
        expect_same_choice(other, make_plan(other, request), first);
      }
    }
  }
}

TEST(Noise, P4FrontsInFlopsAreTheSameOnEveryMachine) {
  const FrontRequest request{.cost = CostModel::flops, .effort = kLittle};
  for (const Graph& graph : unlike_graphs()) {
    const std::vector<Plan> first = make_front(graph, request);
    const Graph other = on_another_machine(graph, 1);
    const std::vector<Plan> again = make_front(other, request);
    ASSERT_EQ(again.size(), first.size());
    for (std::size_t i = 0; i < first.size(); ++i) expect_same_choice(other, again[i], first[i]);
  }
}

}  // namespace
}  // namespace gradrecomp::plan
