// Kept values rounded to half their bytes: what a step under them does, and which ones to round.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/predict.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/rounding/roundable_graph.h"
#include "support/expect_error.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_graph.h"

namespace gradrecomp::plan {
namespace {

using test::chain_graph;
using test::expect_invalid;
using test::RandomGraph;

/// `graph` as if autograd had saved nothing but float32.
Graph all_of_float32(Graph graph) {
  for (Value& value : graph.values) {
    value.rounds = value.producer >= 0;
    value.bytes = value.bytes / 4 * 4;
  }
  return graph;
}

/// Four ops of a second and 12, 20, 40 and 80 bytes, each of which saves its input. Values 1 to 4
/// are made by ops 0 to 3.
Graph four_links() {
  return all_of_float32(chain_graph({.bytes = {12, 20, 40, 80}, .seconds = {1, 1, 1, 1}}));
}

std::vector<std::int64_t> live_bytes(const Graph& graph, std::vector<plan::Rounding> roundings) {
  Timeline timeline;
  Simulator(graph).run({.keep = keep_all(graph), .roundings = std::move(roundings)}, timeline);
  return timeline.live_bytes;
}

std::int64_t live_at_seal(const Graph& graph, std::vector<plan::Rounding> roundings) {
  const auto seal = std::ranges::find(graph.events, EventKind::seal, &Event::kind);
  return live_bytes(graph, std::move(roundings))[seal - graph.events.begin()];
}

TEST(Roundings, TakeHalfTheBytesWhileNothingNeedsTheValue) {
  const Graph graph = four_links();
  EXPECT_EQ(live_at_seal(graph, {}), 152);
  EXPECT_EQ(live_at_seal(graph, {{.value = 2, .after = 2}}), 142);
  EXPECT_EQ(live_at_seal(graph, {{.value = 1, .after = 1}, {.value = 2, .after = 3}}), 136);
  // The program itself holds what the last op made, so the copy comes on top.
  EXPECT_EQ(live_at_seal(graph, {{.value = 4, .after = 3}}), 192);
}

// By then the program has let go of what the op before has read.
TEST(Roundings, TakeTheirPlaceWhenTheNextOpBegins) {
  const Graph graph = four_links();
  const auto kept = live_bytes(graph, {});
  const auto rounded = live_bytes(graph, {{.value = 1, .after = 1}});
  const auto next = std::ranges::find(graph.events, Event{EventKind::run_op, 2, 0, 0});
  ASSERT_NE(next, graph.events.end());
  for (auto event = graph.events.begin(); event != next; ++event) {
    const auto t = event - graph.events.begin();
    EXPECT_EQ(rounded[t], kept[t]) << t;
  }
  const auto t = next - graph.events.begin();
  EXPECT_EQ(rounded[t], kept[t] - 6);
}

TEST(Roundings, GoWithTheirValues) {
  const Graph graph = four_links();
  const auto plain = live_bytes(graph, {});
  const auto rounded = live_bytes(graph, {{.value = 1, .after = 1}, {.value = 2, .after = 2}});
  EXPECT_EQ(rounded.back(), plain.back());
  EXPECT_GT(*std::ranges::max_element(plain), *std::ranges::max_element(rounded));
}

TEST(Roundings, OfWhatMayNotBeRoundedAreRefused) {
  Graph graph = four_links();
  const auto run = [&](plan::Rounding rounding, KeptSet keep) {
    return
        [&graph, rounding, keep] { Simulator(graph).run({.keep = keep, .roundings = {rounding}}); };
  };
  expect_invalid(run({.value = 0, .after = 0}, keep_all(graph)), "one of float32");
  expect_invalid(run({.value = 9, .after = 0}, keep_all(graph)), "a value of the graph");
  expect_invalid(run({.value = 2, .after = 0}, keep_all(graph)), "an op from its own, 1");
  KeptSet keep = keep_all(graph);
  keep[2] = 0;
  expect_invalid(run({.value = 2, .after = 1}, keep), "that the plan keeps");
  graph.values[2].rounds = false;
  expect_invalid(run({.value = 2, .after = 1}, keep_all(graph)), "one of float32");
  graph.values[2].exact = true;
  expect_invalid(run({.value = 1, .after = 1}, keep), "keep of value 2 is 0");
}

TEST(Roundings, BesideAHostLinkAreRefused) {
  const Graph graph = four_links();
  expect_invalid([&] { make_plan(graph, {.max_overhead = 0.1, .bytes_rounded_per_second = 0}); },
                 "bytes_rounded_per_second is 0");
  const HostLink link{.store_bytes_per_second = 1, .fetch_bytes_per_second = 1};
  expect_invalid(
      [&] {
        make_plan(graph, {.max_overhead = 0.1, .host_link = link, .bytes_rounded_per_second = 1});
      },
      "host_link and bytes_rounded_per_second are both set");
}

// A step in which copies can be kept is a step as the planner knows it.
TEST(RoundableGraph, OfAnyStepIsValidAndSaysNothingNew) {
  int num_copies = 0;
  for (int seed = 0; seed < 400; ++seed) {
    const Graph graph = all_of_float32(RandomGraph({.num_ops = 14}, seed).draw());
    const RoundableGraph roundable(graph, 1e12);
    const Graph& copies = roundable.graph();
    ASSERT_NO_THROW(validate(copies)) << "seed " << seed;
    num_copies += static_cast<int>(copies.values.size() - graph.values.size());
    const Plan plan = roundable.plan_of_step({.keep = keep_all(copies)});
    EXPECT_TRUE(plan.roundings.empty());
    EXPECT_EQ(plan.keep, keep_all(graph));
    EXPECT_EQ(simulate(graph, plan.keep).peak_bytes, simulate(graph, keep_all(graph)).peak_bytes);
  }
  EXPECT_GT(num_copies, 1000);
}

double seconds_of(const Plan& plan) {
  return plan.predicted_overhead_seconds + plan.predicted_rounding;
}

/// A speed at which all that is saved is rounded in this share of a step.
double speed_for(const Graph& graph, double share) {
  const auto bytes = static_cast<double>(simulate(graph, keep_all(graph)).peak_bytes);
  return bytes / (share * graph.step_seconds);
}

/// Budgets and how far below the plan that rounds nothing another must be, as a ratio.
struct Gain {
  double max_overhead;
  double at_most;
};

void expect_gains(const Graph& graph, const std::vector<Gain>& gains) {
  for (const auto& [budget, at_most] : gains) {
    SCOPED_TRACE(budget);
    const Plan base = make_plan(graph, {.max_overhead = budget, .effort = 0});
    const Plan plan = make_plan(
        graph,
        {.max_overhead = budget, .bytes_rounded_per_second = speed_for(graph, 0.01), .effort = 0});
    EXPECT_LT(static_cast<double>(plan.predicted_peak_bytes),
              at_most * static_cast<double>(base.predicted_peak_bytes));
    EXPECT_TRUE(plan.feasible);
    EXPECT_LE(seconds_of(plan), budget);
    EXPECT_GT(plan.rounded_bytes, 0);
    EXPECT_EQ(plan.proven_peak_bytes, 0);
    EXPECT_EQ(plan.predicted_peak_bytes, Simulator(graph).run(plan).peak_bytes);
  }
}

TEST(MakePlan, ThatMayRoundReachesLowerPeaksWithinTheBudget) {
  expect_gains(all_of_float32(test::bert_graph(12, 2, 128)),
               {{0.02, 0.7}, {0.05, 0.8}, {0.2, 0.99}});
  expect_gains(all_of_float32(test::resnet_graph({3, 4, 6, 3}, 4)), {{0.02, 0.7}, {0.05, 0.99}});
}

TEST(MakePlan, ThatMayRoundMeetsABoundInBytesAtLessCost) {
  const Graph graph = all_of_float32(test::bert_graph(12, 2, 128));
  const std::int64_t bytes = simulate(graph, keep_all(graph)).peak_bytes / 4;
  const Plan base = make_plan(graph, {.max_peak_bytes = bytes, .effort = 0});
  const Plan plan = make_plan(
      graph,
      {.max_peak_bytes = bytes, .bytes_rounded_per_second = speed_for(graph, 0.01), .effort = 0});
  EXPECT_TRUE(plan.feasible);
  EXPECT_LE(plan.predicted_peak_bytes, bytes);
  EXPECT_LT(seconds_of(plan), 0.8 * base.predicted_overhead_seconds);
}

TEST(MakePlan, ThatMayRoundIsNeverWorse) {
  for (const double share : {0.001, 0.02, 0.5, 20.0}) {
    const Graph graph = all_of_float32(test::bert_graph(6, 2, 128));
    const Plan base = make_plan(graph, {.max_overhead = 0.05, .effort = 0});
    const Plan plan = make_plan(
        graph,
        {.max_overhead = 0.05, .bytes_rounded_per_second = speed_for(graph, share), .effort = 0});
    EXPECT_LE(plan.predicted_peak_bytes, base.predicted_peak_bytes) << share;
    if (share > 1) EXPECT_TRUE(plan.roundings.empty());
  }
}

TEST(MakePlan, ThatRoundsKeepsWhatMustStayExact) {
  Graph graph = all_of_float32(test::bert_graph(6, 2, 128));
  std::vector<std::size_t> exact;
  for (std::size_t v = 0; v < graph.values.size(); v += 29) {
    if (graph.values[v].producer < 0 || graph.values[v].overwritten_by >= 0) continue;
    graph.values[v].exact = true;
    graph.values[v].rounds = false;
    exact.push_back(v);
  }
  ASSERT_GT(exact.size(), 2U);
  const Plan plan = make_plan(
      graph,
      {.max_overhead = 0.02, .bytes_rounded_per_second = speed_for(graph, 0.01), .effort = 0});
  ASSERT_FALSE(plan.roundings.empty());
  for (const std::size_t v : exact) EXPECT_EQ(plan.keep[v], 1) << v;
}

}  // namespace
}  // namespace gradrecomp::plan
