#include "gradrecomp/plan/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "support/expect_error.h"
#include "support/plan/step_builder.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;

/// A chain whose bytes are in proportion to the batch; each step also takes `fixed_seconds`.
Graph chain(Index batch, double fixed_seconds) {
  test::ChainOptions options;
  for (int i = 0; i < 6; ++i) {
    options.bytes.push_back(8 * batch);
    options.seconds.push_back(batch);
  }
  Graph graph = test::chain_graph(options);
  graph.step_seconds += fixed_seconds;
  return graph;
}

BatchFit fit_chain(double fixed_seconds = 0) {
  return {chain(2, fixed_seconds), 2, chain(4, fixed_seconds), 4};
}

/// Samples a second of the best plan at `batch` within `max_peak_bytes`; 0 if there is none.
double throughput(Index batch, double fixed_seconds, std::int64_t max_peak_bytes) {
  const Graph graph = chain(batch, fixed_seconds);
  const Plan plan = make_plan(graph, {.max_peak_bytes = max_peak_bytes});
  const double seconds = graph.step_seconds * (1 + plan.predicted_overhead_seconds);
  return plan.feasible ? batch / seconds : 0;
}

TEST(LargestBatch, IsTheLastThatFitsWithinTheOverhead) {
  const std::int64_t bytes = 10000;
  for (const double max_overhead : {0.0, 0.1, 0.3}) {
    const BatchPlan found =
        largest_batch(fit_chain(), {.max_peak_bytes = bytes, .max_overhead = max_overhead});
    EXPECT_LE(found.plan.predicted_overhead_seconds, max_overhead);
    EXPECT_LE(found.plan.predicted_peak_bytes, bytes);
    EXPECT_EQ(simulate(chain(found.batch, 0), found.plan.keep).peak_bytes,
              found.plan.predicted_peak_bytes);
    for (Index more = 1; more <= 5; ++more) {
      const Plan plan = make_plan(chain(found.batch + more, 0), {.max_overhead = max_overhead});
      EXPECT_GT(plan.predicted_peak_bytes, bytes) << max_overhead << ' ' << more;
    }
  }
}

TEST(LargestBatch, GrowsWithBytesAndOverhead) {
  const BatchFit fit = fit_chain();
  const auto batch = [&](std::int64_t bytes, double max_overhead) {
    return largest_batch(fit, {.max_peak_bytes = bytes, .max_overhead = max_overhead}).batch;
  };
  EXPECT_LT(batch(1000, 0), batch(2000, 0));
  EXPECT_LT(batch(2000, 0), batch(2000, 0.2));
  EXPECT_EQ(largest_batch(fit, {.max_peak_bytes = 1 << 30, .max_batch = 33}).batch, 33);
}

TEST(LargestBatch, NamesTheLeastPeakWhereNotEvenOneSampleFits) {
  const BatchPlan found = largest_batch(fit_chain(), {.max_peak_bytes = 10});
  EXPECT_EQ(found.batch, 0);
  EXPECT_FALSE(found.plan.feasible);
  EXPECT_EQ(found.plan.predicted_peak_bytes,
            make_plan(chain(1, 0), {.max_peak_bytes = 10}).predicted_peak_bytes);
}

TEST(BestThroughput, IsThatOfTheBestBatch) {
  for (const double fixed_seconds : {0.0, 1000.0}) {
    const std::int64_t bytes = 1600;
    double best = 0;
    for (Index batch = 1; batch < 60; ++batch) {
      best = std::max(best, throughput(batch, fixed_seconds, bytes));
    }
    const BatchPlan found = best_throughput(fit_chain(fixed_seconds), {.max_peak_bytes = bytes});
    EXPECT_GE(found.predicted_samples_per_second, 0.99 * best) << fixed_seconds;
    EXPECT_NEAR(found.predicted_samples_per_second, throughput(found.batch, fixed_seconds, bytes),
                1e-9);
    EXPECT_LE(found.plan.predicted_peak_bytes, bytes);
  }
}

TEST(BestThroughput, ReplaysOnlyWhereALargerBatchIsWorthIt) {
  const auto overhead = [](double fixed_seconds) {
    const BatchFit fit = fit_chain(fixed_seconds);
    return best_throughput(fit, {.max_peak_bytes = 4000}).plan.predicted_overhead_seconds;
  };
  EXPECT_EQ(overhead(0), 0);
  EXPECT_GT(overhead(1e5), 0);
}

TEST(BestThroughput, FindsThePlanOfASampleThatDoesNotFitPlainly) {
  const BatchFit fit = fit_chain();
  const std::int64_t plain = simulate(chain(1, 0), keep_all(chain(1, 0))).peak_bytes;
  const BatchPlan found = best_throughput(fit, {.max_peak_bytes = plain - 1});
  EXPECT_EQ(found.batch, 1);
  EXPECT_GT(found.plan.predicted_overhead_seconds, 0);
  EXPECT_EQ(best_throughput(fit, {.max_peak_bytes = 10}).batch, 0);
}

TEST(LeastMemory, ReachesTheThroughputAtNearlyTheLeastPeak) {
  const double fixed_seconds = 100;
  const BatchFit fit = fit_chain(fixed_seconds);
  for (const double wanted : {0.02, 0.04}) {
    auto least = std::numeric_limits<std::int64_t>::max();
    for (Index batch = 1; batch < 30; ++batch) {
      const Graph graph = chain(batch, fixed_seconds);
      const double slack = batch / (graph.step_seconds * wanted) - 1;
      if (slack < 0) continue;
      least = std::min(least, make_plan(graph, {.max_overhead = slack}).predicted_peak_bytes);
    }
    const BatchPlan found = least_memory(fit, {.min_samples_per_second = wanted});
    EXPECT_GE(found.predicted_samples_per_second, wanted * (1 - 1e-12));
    EXPECT_LE(found.plan.predicted_peak_bytes, least * 1.05) << wanted;
  }
}

TEST(LeastMemory, SaysSoWhereNoBatchIsFastEnough) {
  const BatchPlan found =
      least_memory(fit_chain(100), {.min_samples_per_second = 1, .max_batch = 50});
  EXPECT_EQ(found.batch, 0);
  EXPECT_FALSE(found.plan.feasible);
  EXPECT_LT(found.predicted_samples_per_second, 1);
}

TEST(BatchPlan, RejectsRequestsThatMakeNoSense) {
  const BatchFit fit = fit_chain();
  expect_invalid([&] { largest_batch(fit, {}); }, "max_peak_bytes is 0, but must be above 0");
  expect_invalid([&] { best_throughput(fit, {.max_peak_bytes = 9, .max_overhead = -1}); },
                 "max_overhead is -1, but must be at least 0");
  expect_invalid([&] { largest_batch(fit, {.max_peak_bytes = 9, .max_batch = 0}); },
                 "max_batch is 0, but must be at least 1");
  expect_invalid([&] { least_memory(fit, {}); }, "min_samples_per_second is 0");
}

}  // namespace
}  // namespace gradrecomp::plan
