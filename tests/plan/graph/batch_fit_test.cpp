#include "gradrecomp/plan/batch_fit.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/graph/two_halves.h"
#include "support/expect_error.h"
#include "support/plan/model_graphs.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;
using test::StepBuilder;
using test::two_halves;

Graph resnet(Index batch) { return test::resnet_graph({2, 2, 2}, batch); }

void expect_near_costs(const Op& a, const Op& b) {
  EXPECT_NEAR(a.replay_seconds, b.replay_seconds, 1e-9 * b.replay_seconds + 1e-15);
  EXPECT_NEAR(a.forward_seconds, b.forward_seconds, 1e-9 * b.forward_seconds + 1e-15);
  EXPECT_NEAR(a.flops, b.flops, 1e-9 * b.flops);
}

/// A step of one op whose output takes `bytes`, and whose gradient `events` allocate.
Graph small_step(std::int64_t bytes, const std::vector<Event>& events) {
  StepBuilder step;
  const Index v = step.run({.reads = {step.external()}, .fresh_bytes = {bytes}}).front();
  step.save(v);
  Graph graph = step.finish();
  graph.events.insert(graph.events.end(), events.begin(), events.end());
  return graph;
}

Event outside(std::int64_t net_bytes, std::int64_t peak_bytes) {
  return {EventKind::outside, -1, net_bytes, peak_bytes};
}

TEST(BatchFit, PredictsAStepThatGrowsInProportionToTheByte) {
  const BatchFit fit(resnet(2), 2, resnet(4), 4);
  for (const Index batch : {1, 3, 6, 7, 64}) {
    const Graph predicted = fit.graph_at(batch);
    const Graph actual = resnet(batch);
    EXPECT_EQ(predicted.values, actual.values) << batch;
    EXPECT_EQ(predicted.events, actual.events) << batch;
    for (std::size_t i = 0; i < actual.ops.size(); ++i) {
      EXPECT_EQ(predicted.ops[i].transient_bytes, actual.ops[i].transient_bytes);
      expect_near_costs(predicted.ops[i], actual.ops[i]);
    }
    const KeptSet keep = every_k(actual, 2);
    EXPECT_EQ(simulate(predicted, keep).peak_bytes, simulate(actual, keep).peak_bytes) << batch;
  }
}

TEST(BatchFit, GivesTheRecordedStepsBack) {
  Graph small = resnet(2);
  small.signature = 7;
  const BatchFit fit(small, 2, resnet(4), 4);
  EXPECT_EQ(fit.graph_at(2).signature, 7U);
  EXPECT_EQ(fit.graph_at(4).values, resnet(4).values);
  EXPECT_EQ(fit.graph_at(3).signature, 0U);
}

TEST(BatchFit, RoundsUpToWhatTheAllocatorHandsOut) {
  const BatchFit fit(small_step(512, {}), 2, small_step(1536, {}), 5);
  EXPECT_EQ(fit.graph_at(3).values[1].bytes, 1024);  // 512 + 1024 / 3, in pages of 512
  EXPECT_EQ(fit.graph_at(1).values[1].bytes, 512);
  const BatchFit fine(small_step(512, {}), 2, small_step(1540, {}), 5);
  EXPECT_EQ(fine.graph_at(3).values[1].bytes, 855);  // 854.7
}

TEST(BatchFit, NeverPredictsNegativeBytesOrCosts) {
  Graph small = small_step(80, {});
  Graph large = small_step(800, {});
  small.ops[0].replay_seconds = 1;
  large.ops[0].replay_seconds = 0.1;
  const Graph one = BatchFit(small, 4, large, 8).graph_at(1);
  EXPECT_EQ(one.values[1].bytes, 0);
  EXPECT_EQ(BatchFit(small, 4, large, 8).graph_at(100).ops[0].replay_seconds, 0);
}

TEST(BatchFit, FreesWhatItAllocatedWhereTheLineIsNotWhole) {
  const auto step = [](std::int64_t bytes) {
    return small_step(8, {outside(bytes, bytes + 8), outside(-bytes, 0)});
  };
  const Graph graph = BatchFit(step(8), 2, step(32), 5).graph_at(4);
  const std::size_t end = graph.events.size();
  EXPECT_EQ(graph.events[end - 2].net_bytes, 24);
  EXPECT_EQ(graph.events[end - 1].net_bytes, -24);
}

TEST(BatchFit, MergesRunsOfOutsideMemoryOfDifferentLengths) {
  const Graph small = small_step(8, {outside(16, 24), outside(-16, 0), outside(8, 64)});
  const Graph large = small_step(16, {outside(16, 144)});
  const Graph graph = BatchFit(small, 1, large, 2).graph_at(3);
  EXPECT_EQ(graph.events.size(), large.events.size());
  EXPECT_EQ(graph.events.back(), outside(24, 224));  // from (8, 64) over (16, 144)
}

TEST(BatchFit, TakesNoSampleToBeFasterBelowTheSmallerRecording) {
  Graph small = resnet(4);
  Graph large = resnet(8);
  small.step_seconds = 1;
  large.step_seconds = 3;
  const BatchFit fit(small, 4, large, 8);
  EXPECT_EQ(fit.step_seconds_at(1), 0.25);
  EXPECT_EQ(fit.step_seconds_at(6), 2);
}

TEST(BatchFit, RejectsBatchesThatDoNotRise) {
  const Graph graph = resnet(1);
  expect_invalid([&] { BatchFit(graph, 0, graph, 2); }, "small_batch is 0, but must be at least 1");
  expect_invalid([&] { BatchFit(graph, 2, graph, 2); }, "large_batch is 2, but must be above");
  expect_invalid([&] { (void)BatchFit(graph, 1, graph, 2).graph_at(0); }, "batch is 0");
}

TEST(BatchFit, NamesWhatDiffersFirstBetweenTheSteps) {
  const Graph small = resnet(1);
  const auto expect = [&](auto change, const char* part) {
    Graph large = resnet(2);
    change(large);
    expect_invalid([&] { BatchFit(small, 1, large, 2); }, part);
  };
  expect([](Graph& g) { g.ops[3].name = "aten::gelu"; },
         "name of op 3 at the larger batch is aten::gelu, but must be aten::max_pool2d_with_indices"
         " as at the smaller one");
  expect([](Graph& g) { g.values[3].snapshot = true; }, "snapshot of value 3");
  expect([](Graph& g) { g.stages[1].name = "other"; }, "name of stage 1");
  expect(
      [](Graph& g) {
        g.events.pop_back(), g.events.push_back({EventKind::death, 1});
      },
      "is death 1, but must be the end as at the smaller one");
  expect_invalid(
      [&] {
        BatchFit(small, 1, test::resnet_graph({2, 2, 3}, 2), 2);
      },
      "num stages at the larger batch is 9, but must be 8");
}

TEST(Devices, BatchFitFollowsEach) {
  const Graph small = two_halves(10, 30);
  const Graph large = two_halves(20, 60);
  const BatchFit fit(small, 1, large, 2);
  const Graph fitted = fit.graph_at(3);
  const Graph expected = two_halves(30, 90);
  EXPECT_EQ(fitted.devices, expected.devices);
  for (Index d = 0; d < 2; ++d) {
    EXPECT_EQ(simulate(on_device(fitted, d), drop_all(fitted)).peak_bytes,
              simulate(on_device(expected, d), drop_all(expected)).peak_bytes);
  }
}

// The memory of the devices comes in another order, and one more piece of it.
TEST(Devices, BatchFitPairsMemoryOffByDevice) {
  const auto with = [](std::vector<Event> outside) {
    Graph graph = two_halves(10, 30);
    graph.events.insert(graph.events.begin(), outside.begin(), outside.end());
    return graph;
  };
  const Graph small = with({{EventKind::outside, -1, 5, 5, 0}, {EventKind::outside, -1, 7, 9, 1}});
  const Graph large = with({{EventKind::outside, -1, 7, 18, 1},
                            {EventKind::outside, -1, 10, 10, 0},
                            {EventKind::outside, -1, 7, 7, 1}});
  const Graph fitted = BatchFit(small, 1, large, 2).graph_at(3);
  EXPECT_EQ(fitted.events[0], (Event{EventKind::outside, -1, 15, 15, 0}));
  EXPECT_EQ(fitted.events[1], (Event{EventKind::outside, -1, 21, 27, 1}));
}

}  // namespace
}  // namespace gradrecomp::plan
