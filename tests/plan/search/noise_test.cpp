// Conformance P4: measured seconds are noisy; plans made from them are nearly as good.
#include <gtest/gtest.h>

#include <random>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/predict.h"
#include "support/plan/model_graphs.h"
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

}  // namespace
}  // namespace gradrecomp::plan
