#include "support/plan/skip_graphs.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/simulate.h"

namespace gradrecomp::plan {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// Plans at a few budgets save much, are what the simulator says, and lie near their proofs.
void expect_good_plans(const Graph& graph, double worst_gap) {
  for (const double max_overhead : {0.05, 0.1, 0.2}) {
    SCOPED_TRACE(max_overhead);
    const Plan plan = make_plan(graph, {.max_overhead = max_overhead, .cost = CostModel::flops});
    const double peak = share(plan.predicted_peak_bytes, plan.predicted_plain_peak_bytes);
    const double proven = share(plan.proven_peak_bytes, plan.predicted_plain_peak_bytes);
    EXPECT_EQ(simulate(graph, plan.keep, plan.sweeps).peak_bytes, plan.predicted_peak_bytes);
    EXPECT_LE(plan.predicted_overhead_flops, max_overhead);
    EXPECT_LE(peak, 0.5);
    EXPECT_GE(peak, proven);
    EXPECT_LE(peak - proven, worst_gap);
  }
}

/// Whatever a fixed policy reaches, a plan of its overhead reaches too.
void expect_beats_policies(const Graph& graph) {
  for (const char* policy : {"every_1", "every_2", "sqrt_n", "pointwise_only"}) {
    const Plan fixed = make_plan(graph, {.cost = CostModel::flops, .policy = policy});
    const Plan plan = make_plan(
        graph, {.max_overhead = fixed.predicted_overhead_flops, .cost = CostModel::flops});
    EXPECT_LE(plan.predicted_peak_bytes, fixed.predicted_peak_bytes) << policy;
  }
}

TEST(SkipGraphs, UNetIsPlannedNearItsBound) {
  const Graph graph = test::unet_graph(3, 2);
  expect_good_plans(graph, 0.08);
  expect_beats_policies(graph);
}

TEST(SkipGraphs, DenseNetIsPlannedNearItsBound) {
  const Graph graph = test::densenet_graph({6, 12}, 4);
  expect_good_plans(graph, 0.06);
  expect_beats_policies(graph);
}

TEST(SkipGraphs, LargerBudgetNeverGivesAHigherPeak) {
  const Graph graph = test::unet_graph(2, 1, 64);
  std::int64_t last = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const Plan plan = make_plan(graph, {.max_overhead = 0.03 * i});
    EXPECT_LE(plan.predicted_peak_bytes, last) << i;
    last = plan.predicted_peak_bytes;
  }
}

}  // namespace
}  // namespace gradrecomp::plan
