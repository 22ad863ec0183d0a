#include "gradrecomp/plan/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/plan_file.h"
#include "gradrecomp/plan/prove_further.h"
#include "gradrecomp/plan/simulate.h"
#include "support/expect_error.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_graph.h"
#include "support/plan/recorded_graphs.h"

namespace gradrecomp::plan {
namespace {

using test::RandomGraph;

std::vector<std::string> failing_claims(const Graph& graph, const Plan& plan) {
  std::vector<std::string> names;
  for (const Claim& claim : verify(graph, plan)) {
    if (!claim.holds) names.push_back(claim.name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(Verify, PlansOfModelsHold) {
  for (const Graph& graph : {test::resnet_graph({3, 4, 6, 3}, 2), test::bert_graph(6, 2, 64)}) {
    for (const CostModel cost : {CostModel::seconds, CostModel::flops}) {
      const Plan plan = make_plan(graph, {.max_overhead = 0.05, .cost = cost});
      EXPECT_GT(plan.proven_peak_bytes, 0);
      EXPECT_EQ(failing_claims(graph, plan), Names{});
    }
  }
}

TEST(Verify, PlansOfRandomGraphsHoldAlsoFromTheirFiles) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = RandomGraph({.num_ops = 30}, seed).draw();
    for (const Request& request : {Request{.max_overhead = 0.2}, Request{.max_peak_bytes = 500},
                                   Request{.policy = "every_2"}}) {
      const Plan plan = make_plan(graph, request);
      EXPECT_EQ(failing_claims(graph, parse_plan(plan_text({plan})).plan), Names{});
    }
  }
}

// Lines leave nearly five points of it open.
TEST(Verify, WhatAProgramOverOpsProvesHoldsAndNoMore) {
  const Graph graph = test::recorded_graph("fno");
  Plan plan = prove_further(graph, make_plan(graph, {.max_overhead = 0.2}));
  ASSERT_TRUE(plan.peak_proof.by_ops);
  const auto point = plan.predicted_plain_peak_bytes / 100;
  EXPECT_GE(plan.proven_peak_bytes, plan.predicted_peak_bytes - 2 * point);
  EXPECT_EQ(failing_claims(graph, parse_plan(plan_text({plan})).plan), Names{});
  plan.peak_proof.by_ops = false;
  EXPECT_EQ(failing_claims(graph, plan), Names{"proven_peak_bytes"});
  plan.peak_proof.by_ops = true;
  plan.proven_peak_bytes = plan.predicted_peak_bytes + 1;
  EXPECT_EQ(failing_claims(graph, plan), Names{"proven_peak_bytes"});
}

TEST(Verify, AProgramOverOpsAlsoProvesOverheads) {
  const Graph graph = test::recorded_graph("fno");
  const auto plain = simulate(graph, keep_all(graph)).peak_bytes;
  Plan plan = prove_further(graph, make_plan(graph, {.max_peak_bytes = plain * 42 / 100}));
  ASSERT_TRUE(plan.overhead_proof.by_ops);
  EXPECT_EQ(failing_claims(graph, parse_plan(plan_text({plan})).plan), Names{});
  plan.proven_overhead = plan.predicted_overhead_seconds + 1e-6;
  EXPECT_EQ(failing_claims(graph, plan), Names{"proven_overhead"});
}

// More bytes than doubles tell apart.
TEST(Verify, FindsAProofThatIsAByteTooHigh) {
  Graph graph = RandomGraph({.num_ops = 10}, 5).draw();
  for (Value& value : graph.values) value.bytes <<= 45;
  for (Op& op : graph.ops) op.transient_bytes <<= 45;
  Plan plan = make_plan(graph, {.max_overhead = 0.2});
  ASSERT_GT(plan.proven_peak_bytes, std::int64_t{1} << 53);
  EXPECT_EQ(failing_claims(graph, plan), Names{});
  plan.proven_peak_bytes += 1;
  EXPECT_EQ(failing_claims(graph, plan), Names{"proven_peak_bytes"});
}

TEST(Verify, PlansOfAStepThatCountsNothingHold) {
  Graph graph = RandomGraph({.num_ops = 30}, 5).draw();
  graph.step_flops = 0;
  graph.step_seconds = 0;
  const Plan plan = make_plan(graph, {.policy = "drop_all"});
  EXPECT_GT(plan.predicted_overhead_flops, 1e300);
  EXPECT_EQ(failing_claims(graph, plan), Names{});
}

TEST(Verify, EveryPlanOfAFrontHolds) {
  const Graph graph = test::resnet_graph({2, 2, 2, 2}, 1);
  const auto front = make_front(graph, {});
  EXPECT_GT(front.size(), 3U);
  for (const Plan& plan : front) EXPECT_EQ(failing_claims(graph, plan), Names{});
}

TEST(Verify, PlansForSeveralDevicesHold) {
  Graph graph = RandomGraph({.num_ops = 30}, 5).draw();
  graph.devices = {"cuda:0", "cpu"};
  graph.events.insert(graph.events.begin(), {EventKind::outside, -1, 100, 100, 1});
  Plan plan = make_plan(graph, {.max_overhead = 0.2});
  EXPECT_EQ(failing_claims(graph, plan), Names{});
  plan.devices[1].predicted_peak_bytes += 1;
  EXPECT_EQ(failing_claims(graph, plan), Names{"devices[1].predicted_peak_bytes"});
  plan.devices.pop_back();
  EXPECT_EQ(failing_claims(graph, plan), Names{"devices"});
}

TEST(Verify, PlansThatOffloadHoldAndProveNothing) {
  const Graph graph = test::resnet_graph({2, 2, 2, 2}, 4);
  const Plan plan = make_plan(graph, {.max_overhead = 0.02, .host_link = HostLink{10e9, 10e9}});
  ASSERT_FALSE(plan.offloads.empty());
  EXPECT_EQ(failing_claims(graph, plan), Names{});
  EXPECT_EQ(plan.peak_proof, Proof{});
}

TEST(Verify, FindsEachFigureThatIsNotSo) {
  const Graph graph = test::resnet_graph({2, 2, 2, 2}, 1);
  const Plan good = make_plan(graph, {.max_overhead = 0.05});
  const auto expect_found = [&](const std::string& name, auto change) {
    Plan plan = good;
    change(plan);
    EXPECT_EQ(failing_claims(graph, plan), Names{name});
  };
  expect_found("predicted_plain_peak_bytes", [](Plan& p) { ++p.predicted_plain_peak_bytes; });
  expect_found("predicted_overhead_flops", [](Plan& p) { p.predicted_overhead_flops += 1e-6; });
  expect_found("num_replayed_ops", [](Plan& p) { --p.num_replayed_ops; });
  expect_found("offloaded_bytes", [](Plan& p) { p.offloaded_bytes = 1; });
  expect_found("proven_peak_bytes", [](Plan& p) { ++p.proven_peak_bytes; });
  expect_found("proven_overhead", [](Plan& p) { p.proven_overhead *= 1 + 1e-9; });
  expect_found("predicted_overhead_seconds", [](Plan& p) {
    p.predicted_overhead_seconds -= 1e-6;  // less time proves a higher peak
  });
}

TEST(Verify, ALowerPeakThanTheKeptSetsIsFound) {
  const Graph graph = test::resnet_graph({2, 2, 2, 2}, 1);
  Plan plan = make_plan(graph, {.max_overhead = 0.05});
  --plan.predicted_peak_bytes;
  EXPECT_EQ(failing_claims(graph, plan), Names{"predicted_peak_bytes"});
}

TEST(Verify, ABoundWithoutItsProofDoesNotHold) {
  const Graph graph = test::resnet_graph({2, 2, 2, 2}, 1);
  Plan plan = make_plan(graph, {.max_overhead = 0.05});
  ASSERT_GT(plan.proven_overhead, 0);
  plan.peak_proof = {};
  plan.overhead_proof = {};
  EXPECT_EQ(failing_claims(graph, plan), (Names{"proven_peak_bytes", "proven_overhead"}));
}

TEST(Verify, NoChangeOfAProofProvesMoreThanAnyPlanReaches) {
  const Graph graph = test::bert_graph(6, 2, 64);
  const Plan good = make_plan(graph, {.max_overhead = 0.05});
  for (std::size_t m = 0; m < good.peak_proof.moments.size(); m += 7) {
    Plan plan = good;
    plan.peak_proof.moments[m].weight = plan.peak_proof.moments[m].weight / 3 + 1;
    plan.peak_proof.price /= 2;
    plan.proven_peak_bytes = good.predicted_peak_bytes + 1;
    EXPECT_EQ(failing_claims(graph, plan), Names{"proven_peak_bytes"});
  }
}

TEST(Verify, RefusesAPlanOfAnotherGraph) {
  const Graph graph = test::resnet_graph({2, 2, 2, 2}, 1);
  Plan plan = make_plan(graph, {.max_overhead = 0.05});
  ++plan.signature;
  test::expect_invalid([&] { verify(graph, plan); }, "verify: plan.signature is 0x");
  --plan.signature;
  plan.keep.pop_back();
  test::expect_invalid([&] { verify(graph, plan); }, "but must be");
}

}  // namespace
}  // namespace gradrecomp::plan
