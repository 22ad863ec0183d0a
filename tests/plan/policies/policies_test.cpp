#include "gradrecomp/plan/policies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gradrecomp/plan/simulate.h"
#include "support/expect_error.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_graph.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;
using test::StepBuilder;

Graph chain_of_8() {
  return test::chain_graph(
      {.bytes = std::vector<std::int64_t>(8, 10), .seconds = std::vector<double>(8, 1)});
}

TEST(Policies, KeepAllReplaysNothing) {
  for (int seed = 0; seed < 200; ++seed) {
    const Graph graph = test::RandomGraph({}, seed).draw();
    EXPECT_EQ(simulate(graph, keep_all(graph)).num_replayed_ops, 0) << seed;
  }
}

TEST(Policies, DropAllKeepsOnlyWhatCannotBeReplayed) {
  Graph graph = chain_of_8();
  graph.values[3].must_keep = true;
  EXPECT_EQ(drop_all(graph), (KeptSet{0, 0, 0, 1, 0, 0, 0, 0, 0}));
}

TEST(Policies, EveryKKeepsTheBoundariesOfItsGroups) {
  const Graph graph = chain_of_8();
  // Value i is made by op i - 1 in a stage of its own.
  EXPECT_EQ(every_k(graph, 2), (KeptSet{0, 0, 1, 0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(every_k(graph, 3), (KeptSet{0, 0, 0, 1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(sqrt_n(graph), every_k(graph, 3));
}

TEST(Policies, EveryKReplaysAGroupAtItsFirstDemand) {
  const Graph graph = chain_of_8();
  // Retained 20 while the middle group runs backward: its 2 other values and 2 gradients on top.
  EXPECT_EQ(simulate(graph, every_k(graph, 3)).seal_bytes, 30);
  EXPECT_EQ(simulate(graph, every_k(graph, 3)).peak_bytes, 60);
}

TEST(Policies, EveryKKeepsTheLastVersionOfABoundaryOverwrittenInPlace) {
  StepBuilder step;
  const Index x = step.external();
  const Index made = step.run({.reads = {x}, .fresh_bytes = {8}}).front();
  step.stage("relu");
  const Index active = step.run({.name = "relu_", .overwrites = {made}}).front();
  step.save(active);
  const KeptSet keep = every_k(step.finish(), 1);
  EXPECT_EQ(keep[made], 0);
  EXPECT_EQ(keep[active], 1);
}

TEST(Policies, EveryKRejectsEmptyGroups) {
  expect_invalid([] { every_k(chain_of_8(), 0); }, "k is 0, but must be at least 1");
}

TEST(Policies, PointwiseOnlyReplaysNoFlops) {
  for (int seed = 0; seed < 300; ++seed) {
    const Graph graph = test::RandomGraph({.num_ops = 20}, seed).draw();
    EXPECT_EQ(simulate(graph, pointwise_only(graph)).replay_flops, 0) << seed;
  }
}

TEST(Policies, PointwiseOnlyHalvesWhatResNetRetains) {
  const Graph graph = test::resnet_graph({2, 2, 2, 2}, 1);
  const Simulation plain = simulate(graph, keep_all(graph));
  const Simulation result = simulate(graph, pointwise_only(graph));
  EXPECT_EQ(result.replay_flops, 0);
  EXPECT_LT(static_cast<double>(result.seal_bytes), 0.6 * static_cast<double>(plain.seal_bytes));
}

TEST(Policies, PointwiseOnlyKeepsTheFewerBytesWhereAGemmOutputIsNotSaved) {
  for (const std::int64_t gemm_bytes : {4, 400}) {
    StepBuilder step;
    const Index gemm = step.run({.name = "mm",
                                 .reads = {step.external()},
                                 .fresh_bytes = {gemm_bytes},
                                 .flops = 100})
                           .front();
    const Index wide = step.run({.name = "expand", .reads = {gemm}, .fresh_bytes = {40}}).front();
    step.save(wide);
    const KeptSet keep = pointwise_only(step.finish());
    EXPECT_EQ(keep[gemm], gemm_bytes < 40 ? 1 : 0);
    EXPECT_EQ(keep[wide], gemm_bytes < 40 ? 0 : 1);
  }
}

TEST(Policies, UniformCutsIntoSegmentsOfEqualBytes) {
  const Graph even = chain_of_8();
  EXPECT_EQ(uniform_n(even, 1), drop_all(even));
  EXPECT_EQ(uniform_n(even, 4), every_k(even, 2));
  // Half of the 40 bytes lie in the first value, whatever the number of stages.
  const Graph uneven =
      test::chain_graph({.bytes = {20, 5, 5, 5, 5}, .seconds = std::vector<double>(5, 1)});
  EXPECT_EQ(uniform_n(uneven, 2), (KeptSet{0, 1, 0, 0, 0, 0}));
}

TEST(Policies, UniformRejectsNoSegments) {
  expect_invalid([] { uniform_n(chain_of_8(), 0); }, "num_segments is 0, but must be at least 1");
}

TEST(Policies, ChenGreedyFindsTheThresholdOfLeastPeak) {
  const Graph graph = chain_of_8();
  const std::int64_t greedy = simulate(graph, chen_greedy(graph)).peak_bytes;
  std::int64_t least = simulate(graph, drop_all(graph)).peak_bytes;
  for (Index k = 1; k <= 8; ++k) {  // on equal links, a threshold is a number of links
    least = std::min(least, simulate(graph, every_k(graph, k)).peak_bytes);
  }
  EXPECT_EQ(greedy, least);
}

TEST(Policies, ChenGreedyIsNotWorseThanSqrtNOnAModel) {
  const Graph graph = test::resnet_graph({3, 4, 6, 3}, 1);
  EXPECT_LT(simulate(graph, chen_greedy(graph)).peak_bytes,
            simulate(graph, sqrt_n(graph)).peak_bytes);
}

TEST(Policies, SelectiveKeepsStageBoundariesAndWhatFlopsMade) {
  const Graph graph = test::resnet_graph({2, 2}, 1);
  const KeptSet keep = selective(graph);
  const KeptSet boundaries = every_k(graph, 1);
  for (std::size_t v = 0; v < keep.size(); ++v) {
    const Value& x = graph.values[v];
    if (x.producer < 0) continue;
    const bool has_flops = graph.ops[x.producer].flops > 0;
    EXPECT_EQ(keep[v] != 0, boundaries[v] != 0 || has_flops) << v;
  }
  EXPECT_EQ(simulate(graph, keep).replay_flops, 0);
}

TEST(Policies, SelectiveKeepsWhatABiasWasAddedTo) {
  StepBuilder step;
  const Index x = step.external();
  const Index product =
      step.run({.name = "aten::mm", .reads = {x}, .fresh_bytes = {8}, .flops = 9}).front();
  const Index sum =
      step.run({.name = "aten::add_", .reads = {step.external()}, .overwrites = {product}}).front();
  step.run({.name = "aten::gelu", .reads = {sum}, .fresh_bytes = {8}});
  step.save(sum);
  EXPECT_EQ(selective(step.finish())[sum], 1);
}

TEST(Policies, PlanAnyGraph) {
  for (int seed = 0; seed < 200; ++seed) {
    const Graph graph = test::RandomGraph({.num_ops = 25}, seed).draw();
    for (const char* text :
         {"uniform_3", "chen_greedy", "selective", "whole_block_0.5", "revolve_1", "nested"}) {
      const FixedPlan plan = Policy(text).plan(graph);
      EXPECT_LE(simulate(graph, plan.keep).replay_seconds, graph.step_seconds) << text << seed;
      for (const Sweep& sweep : plan.sweeps) EXPECT_TRUE(graph.values[sweep.target].saved);
    }
  }
}

TEST(Policy, TextGoesThereAndBack) {
  for (const std::string text :
       {"keep_all", "drop_all", "every_2", "every_17", "sqrt_n", "uniform_8", "chen_greedy",
        "pointwise_only", "selective", "whole_block_0.4", "whole_block_1", "revolve_5", "nested",
        "every_2147483647", "whole_block_1e-05"}) {
    EXPECT_EQ(Policy(text).name(), text);
  }
  EXPECT_EQ(Policy("every-3"), Policy("every_3"));
  EXPECT_EQ(Policy("whole-block-1e-05"), Policy("whole_block_0.00001"));
  EXPECT_NE(Policy("every_3"), Policy("every_4"));
  EXPECT_NE(Policy("sqrt_n"), Policy("nested"));
}

TEST(Policy, ErrorListsTheChoices) {
  for (const std::string text :
       {"", "keepall", "every_", "every_0", "every_2x", "every_-1", "revolve_0", "uniform_",
        "whole_block_0", "whole_block_1.5", "whole_block_nan", "nested_2", "max_overhead",
        "every_1e3", "every_2147483648"}) {
    expect_invalid([&] { static_cast<void>(Policy(text)); },
                   "policy is \"" + text + "\", but must be one of keep_all, drop_all, every_<k>");
  }
}

TEST(Policy, EveryNameGivesThePlanOfItsFunction) {
  const Graph graph = chain_of_8();
  const auto plan = [&](const char* text) { return Policy(text).plan(graph); };
  EXPECT_EQ(plan("every_2"), FixedPlan{every_k(graph, 2)});
  EXPECT_EQ(plan("uniform_3"), FixedPlan{uniform_n(graph, 3)});
  EXPECT_EQ(plan("chen_greedy"), FixedPlan{chen_greedy(graph)});
  EXPECT_EQ(plan("selective"), FixedPlan{selective(graph)});
  EXPECT_EQ(plan("whole_block_0.5"), FixedPlan{whole_block(graph, 0.5)});
  EXPECT_EQ(plan("revolve_2"), revolve_n(graph, 2));
  EXPECT_EQ(plan("nested"), nested(graph));
}

}  // namespace
}  // namespace gradrecomp::plan
