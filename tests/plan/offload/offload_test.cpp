// Kept values in host memory: what a step under them does, and which ones to send there.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/offload/offloaded_graph.h"
#include "plan/offload/transfers.h"
#include "support/expect_error.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_graph.h"
#include "support/plan/step_builder.h"

namespace gradrecomp::plan {
namespace {

using test::chain_graph;
using test::expect_invalid;
using test::RandomGraph;

/// Four ops of a second and 10, 20, 40 and 80 bytes, each of which saves its input. Backward takes
/// eight seconds. Values 1 to 4 are made by ops 0 to 3.
Graph four_links() { return chain_graph({.bytes = {10, 20, 40, 80}, .seconds = {1, 1, 1, 1}}); }

std::int64_t live_at(const Graph& graph, const Plan& plan, EventKind kind) {
  Timeline timeline;
  Simulator(graph).run(plan.keep, plan.sweeps, plan.offloads, timeline);
  const auto event = std::ranges::find(graph.events, kind, &Event::kind);
  return timeline.live_bytes[static_cast<std::size_t>(event - graph.events.begin())];
}

TEST(Offloads, TakesNothingOfTheDeviceWhileItIsAway) {
  const Graph graph = four_links();
  Plan plan{.keep = keep_all(graph)};
  EXPECT_EQ(live_at(graph, plan, EventKind::seal), 150);
  plan.offloads = {{.value = 2, .leaves_after = 2}};
  EXPECT_EQ(live_at(graph, plan, EventKind::seal), 130);
  plan.offloads = {{.value = 1, .leaves_after = 1}, {.value = 2, .leaves_after = 3}};
  EXPECT_EQ(live_at(graph, plan, EventKind::seal), 120);
  // The program itself holds what the last op made.
  plan.offloads = {{.value = 4, .leaves_after = 3}};
  EXPECT_EQ(live_at(graph, plan, EventKind::seal), 150);
}

TEST(Offloads, ComesBackAtTheDemandThatThePlanNamesOrWhenItIsNeeded) {
  const Graph graph = four_links();
  const auto returns = [&](Index returns_at) {
    const std::vector<plan::Offload> offloads{
        {.value = 1, .leaves_after = 1, .returns_at = returns_at}};
    Timeline timeline;
    Simulator(graph).run(keep_all(graph), {}, offloads, timeline);
    EXPECT_EQ(timeline.returned_values, std::vector<Index>{1});
    return graph.events[timeline.return_events.front()].id;
  };
  EXPECT_EQ(returns(-1), 1);
  EXPECT_EQ(returns(3), 3);
  EXPECT_EQ(returns(2), 2);
}

TEST(Offloads, IsReadByReplays) {
  const Graph graph = four_links();
  KeptSet keep = keep_all(graph);
  keep[2] = keep[3] = 0;
  const std::vector<plan::Offload> offloads{{.value = 1, .leaves_after = 1}};
  Timeline timeline;
  const Simulation result = Simulator(graph).run(keep, {}, offloads, timeline);
  EXPECT_EQ(result.num_replayed_ops, 2);
  EXPECT_EQ(timeline.replayed_ops, (std::vector<Index>{1, 2}));
  EXPECT_EQ(graph.events[timeline.return_events.front()].id, 3);
}

TEST(Offloads, OfWhatCannotLeaveIsRefused) {
  Graph graph = four_links();
  const auto run = [&](plan::Offload offload, KeptSet keep) {
    return [&graph, offload, keep] { simulate(graph, keep, {}, std::vector{offload}); };
  };
  expect_invalid(run({.value = 0, .leaves_after = 0}, keep_all(graph)), "one that an op makes");
  expect_invalid(run({.value = 9, .leaves_after = 0}, keep_all(graph)), "a value of the graph");
  expect_invalid(run({.value = 2, .leaves_after = 0}, keep_all(graph)), "an op from its own, 1");
  expect_invalid(run({.value = 2, .leaves_after = 4}, keep_all(graph)), "an op from its own, 1");
  expect_invalid(run({.value = 2, .leaves_after = 1, .returns_at = 5}, keep_all(graph)),
                 "-1 or a value");
  KeptSet keep = keep_all(graph);
  keep[2] = 0;
  expect_invalid(run({.value = 2, .leaves_after = 1}, keep), "that the plan keeps");
  graph.values[2].must_keep = true;
  expect_invalid(run({.value = 2, .leaves_after = 1}, keep_all(graph)), "that can be replayed");
}

// The planner's trick: values away count as memory outside all values, and all bytes stay the same.
TEST(Offloads, IsMemoryThatIsNoValueToTheByte) {
  std::mt19937 random(1);
  int num_offloads = 0;
  for (int seed = 0; seed < 400; ++seed) {
    const Graph graph = RandomGraph({.num_ops = 14, .must_keep_chance = 0}, seed).draw();
    const OffloadedGraph places(graph);
    const KeptSet keep = keep_all(graph);
    std::vector<plan::Offload> offloads;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      if (!places.can_leave(v) || keep[v] == 0 || random() % 2 == 0) continue;
      const Index producer = graph.values[v].producer;
      const auto num_later = static_cast<Index>(graph.ops.size()) - producer;
      offloads.push_back({.value = static_cast<Index>(v),
                          .leaves_after = producer + static_cast<Index>(random() % num_later)});
    }
    Timeline timeline;
    Simulator simulator(graph);
    simulator.run(keep, {}, offloads, timeline);
    std::vector<Need> needs;
    for (std::size_t i = 0; i < timeline.returned_values.size(); ++i) {
      needs.push_back({timeline.returned_values[i], timeline.return_events[i]});
    }
    std::erase_if(offloads, [&](const plan::Offload& o) {
      return std::ranges::find(needs, o.value, &Need::value) == needs.end();
    });
    num_offloads += static_cast<int>(offloads.size());
    const Graph without = places.graph_without(offloads, needs);
    validate(without);
    EXPECT_EQ(simulate(without, keep).peak_bytes, simulator.run(keep, {}, offloads).peak_bytes)
        << "seed " << seed;
  }
  EXPECT_GT(num_offloads, 400);
}

TEST(Transfers, ArriveAndComeBackInTimeWhereTheLinkIsFast) {
  const Graph graph = four_links();
  const Transfers transfers(
      graph, {.store_bytes_per_second = 1000, .fetch_bytes_per_second = 1000, .overlaps = true});
  const auto demand = [&](Index v) {
    const auto event = std::ranges::find_if(
        graph.events, [&](const Event& e) { return e.kind == EventKind::demand && e.id == v; });
    return static_cast<Index>(event - graph.events.begin());
  };
  const auto schedule = transfers.schedule({{2, demand(2)}, {1, demand(1)}});
  EXPECT_EQ(schedule.stall_seconds, 0);
  ASSERT_EQ(schedule.offloads.size(), 2U);
  EXPECT_EQ(schedule.offloads[0], (plan::Offload{.value = 1, .leaves_after = 1, .returns_at = 2}));
  EXPECT_EQ(schedule.offloads[1], (plan::Offload{.value = 2, .leaves_after = 2, .returns_at = 4}));
}

TEST(Transfers, StallTheStepWhereTheLinkIsSlow) {
  const Graph graph = four_links();
  // 12.5 seconds there for the first value, with the margin: nine more than forward has left.
  const Transfers transfers(
      graph, {.store_bytes_per_second = 1, .fetch_bytes_per_second = 1e9, .overlaps = true});
  const auto events = static_cast<Index>(graph.events.size()) - 1;
  EXPECT_DOUBLE_EQ(transfers.schedule({{1, events}}).stall_seconds, 9.5);
  // A link that overlaps nothing stalls for each transfer.
  const Transfers plain(
      graph, {.store_bytes_per_second = 10, .fetch_bytes_per_second = 20, .overlaps = false});
  EXPECT_DOUBLE_EQ(plain.schedule({{1, events}, {2, events}}).stall_seconds, 4.5);
}

/// A link that carries this share of the plain peak within forward.
HostLink link_for(const Graph& graph, double share) {
  double forward_seconds = 0;
  for (const Op& op : graph.ops) forward_seconds += op.forward_seconds;
  const auto plain = static_cast<double>(simulate(graph, keep_all(graph)).peak_bytes);
  const double rate = share * plain / forward_seconds;
  return {.store_bytes_per_second = rate, .fetch_bytes_per_second = rate, .overlaps = true};
}

/// Budgets and how far below the plan without a link the one with it must be, as a ratio.
struct Gain {
  double max_overhead;
  double at_most;
};

void expect_gains(const Graph& graph, const std::vector<Gain>& gains) {
  for (const auto& [budget, at_most] : gains) {
    const auto base = static_cast<double>(
        make_plan(graph, {.max_overhead = budget, .effort = 0}).predicted_peak_bytes);
    const Plan plan =
        make_plan(graph, {.max_overhead = budget, .host_link = link_for(graph, 0.5), .effort = 0});
    EXPECT_LE(static_cast<double>(plan.predicted_peak_bytes), at_most * base)
        << "budget " << budget;
    EXPECT_LE(plan.predicted_overhead_seconds + plan.predicted_stall, budget + 1e-12);
    EXPECT_TRUE(plan.feasible);
    EXPECT_GT(plan.offloaded_bytes, 0);
    const Simulation result = simulate(graph, plan.keep, plan.sweeps, plan.offloads);
    EXPECT_EQ(plan.predicted_peak_bytes, result.peak_bytes);
    EXPECT_EQ(plan.num_replayed_ops, result.num_replayed_ops);
  }
}

TEST(MakePlan, WithAHostLinkReachesLowerPeaksWithinTheBudget) {
  expect_gains(test::bert_graph(12, 2, 128), {{0.0, 0.9}, {0.05, 0.7}, {0.2, 0.85}});
  expect_gains(test::resnet_graph({3, 4, 6, 3}, 4), {{0.0, 0.9}});
}

TEST(MakePlan, WithAHostLinkMeetsABoundInBytesAtLessCost) {
  const Graph graph = test::bert_graph(12, 2, 128);
  const std::int64_t bytes = simulate(graph, keep_all(graph)).peak_bytes / 5;
  const Plan base = make_plan(graph, {.max_peak_bytes = bytes, .effort = 0});
  const Plan plan =
      make_plan(graph, {.max_peak_bytes = bytes, .host_link = link_for(graph, 0.5), .effort = 0});
  EXPECT_LE(plan.predicted_peak_bytes, bytes);
  EXPECT_LT(plan.predicted_overhead_seconds + plan.predicted_stall,
            0.85 * base.predicted_overhead_seconds);
}

TEST(MakePlan, WithAFasterHostLinkIsNoWorse) {
  const Graph graph = test::bert_graph(6, 2, 128);
  std::int64_t last = make_plan(graph, {.max_overhead = 0.05, .effort = 0}).predicted_peak_bytes;
  for (const double share : {0.01, 0.1, 0.3, 0.6}) {
    const Plan plan =
        make_plan(graph, {.max_overhead = 0.05, .host_link = link_for(graph, share), .effort = 0});
    EXPECT_LE(plan.predicted_peak_bytes, last) << "share " << share;
    last = plan.predicted_peak_bytes;
  }
}

TEST(MakePlan, UnderFlopsOffloadsOnlyWhatStallsNothing) {
  const Graph graph = test::bert_graph(6, 2, 128);
  const Plan fast = make_plan(graph, {.max_overhead = 0.05,
                                      .cost = CostModel::flops,
                                      .host_link = link_for(graph, 0.5),
                                      .effort = 0});
  EXPECT_FALSE(fast.offloads.empty());
  EXPECT_EQ(fast.predicted_stall, 0);
  HostLink plain = link_for(graph, 0.5);
  plain.overlaps = false;
  EXPECT_TRUE(
      make_plan(graph,
                {.max_overhead = 0.05, .cost = CostModel::flops, .host_link = plain, .effort = 0})
          .offloads.empty());
}

TEST(MakePlan, RefusesAHostLinkWithoutASpeed) {
  const Graph graph = four_links();
  expect_invalid([&] { make_plan(graph, {.max_overhead = 0.1, .host_link = HostLink{}}); },
                 "host_link.store_bytes_per_second is 0, but must be above 0");
}

}  // namespace
}  // namespace gradrecomp::plan
