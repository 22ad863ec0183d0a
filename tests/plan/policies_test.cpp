#include "gradrecomp/plan/policies.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gradrecomp/plan/simulate.h"
#include "support/expect_error.h"
#include "support/model_graphs.h"
#include "support/random_graph.h"

namespace gradrecomp::plan {
namespace {

using testing::expect_invalid;
using testing::StepBuilder;

Graph chain_of_8() {
  return testing::chain_graph(
      {.bytes = std::vector<std::int64_t>(8, 10), .seconds = std::vector<double>(8, 1)});
}

TEST(Policies, KeepAllReplaysNothing) {
  for (int seed = 0; seed < 200; ++seed) {
    const Graph graph = testing::RandomGraph({}, seed).draw();
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
    const Graph graph = testing::RandomGraph({.num_ops = 20}, seed).draw();
    EXPECT_EQ(simulate(graph, pointwise_only(graph)).replay_flops, 0) << seed;
  }
}

TEST(Policies, PointwiseOnlyHalvesWhatResNetRetains) {
  const Graph graph = testing::resnet_graph({2, 2, 2, 2}, 1);
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

TEST(Selection, DecidesSavedValuesByStageAndOpPattern) {
  const Graph graph = testing::bert_graph(2, 1, 8);
  const auto verdicts = select(graph, {.keep_ops = {"*dropout"}, .drop_ops = {"aten::g*u"}});
  int num_kept = 0;
  int num_dropped = 0;
  for (std::size_t v = 0; v < verdicts.size(); ++v) {
    num_kept += verdicts[v] == Verdict::keep ? 1 : 0;
    num_dropped += verdicts[v] == Verdict::drop ? 1 : 0;
    EXPECT_TRUE(verdicts[v] == Verdict::open || graph.values[v].saved);
  }
  EXPECT_EQ(num_kept, 4);
  EXPECT_EQ(num_dropped, 2);
}

TEST(Selection, RejectsAContradictionAndAPatternWithoutAMatch) {
  const Graph graph = testing::bert_graph(2, 1, 8);
  expect_invalid([&] { select(graph, {.keep_stages = {"layer1"}, .drop_ops = {"*addmm"}}); },
                 "is both keep and drop, but must be one of the two");
  expect_invalid([&] { select(graph, {.keep_ops = {"aten::conv*"}}); },
                 "pattern is \"aten::conv*\"");
}

TEST(Policy, TextGoesThereAndBack) {
  for (const std::string text : {"keep_all", "drop_all", "every_2", "every_17", "sqrt_n",
                                 "pointwise_only", "max_overhead", "max_peak_bytes"}) {
    EXPECT_EQ(to_string(parse_policy(text)), text);
  }
  EXPECT_EQ(parse_policy("every_3"), (Policy{PolicyKind::every_k, 3}));
}

TEST(Policy, ErrorListsTheChoices) {
  for (const std::string text : {"", "keepall", "every_", "every_0", "every_2x", "every_-1"}) {
    expect_invalid([&] { parse_policy(text); }, "policy is \"" + text + "\", but must be one of");
  }
  expect_invalid([] { kept_set(chain_of_8(), parse_policy("max_overhead")); }, "a fixed policy");
}

}  // namespace
}  // namespace gradrecomp::plan
