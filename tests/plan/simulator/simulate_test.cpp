#include "gradrecomp/plan/simulate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "support/expect_error.h"
#include "support/plan/random_graph.h"
#include "support/plan/reference_executor.h"
#include "support/plan/step_builder.h"

namespace gradrecomp::plan {
namespace {

using test::ChainOptions;
using test::StepBuilder;

Event event(EventKind kind, Index id) { return {.kind = kind, .id = id}; }

KeptSet random_set(std::size_t size, std::mt19937_64& random) {
  KeptSet keep(size);
  const std::uint64_t percent = random() % 101;
  for (auto& bit : keep) bit = random() % 100 < percent ? 1 : 0;
  return keep;
}

/// Sweeps for some of the values that can be demanded, each caching some of all that could be.
std::vector<Sweep> random_sweeps(const Graph& graph, std::mt19937_64& random) {
  const std::uint64_t percent = random() % 101;
  const auto drawn = [&](Index v) {
    return graph.values[v].overwritten_by < 0 && random() % 100 < percent;
  };
  const auto num_values = static_cast<Index>(graph.values.size());
  std::vector<Sweep> sweeps;
  for (Index target = 0; target < num_values; ++target) {
    if (!drawn(target)) continue;
    sweeps.push_back({.target = target});
    for (Index v = 0; v < num_values; ++v) {
      if (drawn(v)) sweeps.back().cached.push_back(v);
    }
  }
  return sweeps;
}

/// The simulation equals that of the reference, live bytes after every event included.
void expect_reference(const Graph& graph, const KeptSet& keep, const std::vector<Sweep>& sweeps) {
  test::ReferenceExecutor reference(graph, keep, sweeps);
  const Simulation expected = reference.run();
  Timeline timeline;
  EXPECT_EQ(Simulator(graph).run(keep, sweeps, timeline), expected);
  EXPECT_EQ(simulate(graph, keep, sweeps), expected);
  EXPECT_EQ(timeline.live_bytes, reference.live_after_event);
}

void fuzz(const test::RandomGraphOptions& options, int num_graphs) {
  for (int seed = 0; seed < num_graphs && !::testing::Test::HasFailure(); ++seed) {
    const Graph graph = test::RandomGraph(options, seed).draw();
    ASSERT_NO_THROW(validate(graph)) << "seed " << seed;
    std::mt19937_64 random(seed);
    for (int i = 0; i < 4; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      const KeptSet keep = random_set(graph.values.size(), random);
      expect_reference(graph, keep, {});
      expect_reference(graph, keep, random_sweeps(graph, random));
    }
  }
}

TEST(Simulate, EqualsTheReferenceOnSmallRandomGraphs) { fuzz({.num_ops = 7}, 3000); }

TEST(Simulate, EqualsTheReferenceOnRandomGraphs) { fuzz({.num_ops = 20}, 1500); }

TEST(Simulate, EqualsTheReferenceOnGraphsFullOfInPlaceOps) {
  fuzz({.num_ops = 16, .in_place_chance = 70, .snapshot_chance = 60, .must_keep_chance = 20}, 1500);
}

TEST(Simulate, EqualsTheReferenceOnGraphsThatSaveLittle) {
  fuzz({.num_ops = 24, .must_keep_chance = 2, .save_chance = 15, .death_chance = 80}, 1500);
}

TEST(Simulate, EqualsTheReferenceOnGraphsOfSeveralPasses) {
  fuzz({.num_ops = 20, .pass_end_chance = 15}, 1500);
}

// In a chain value i costs bytes[i], and dropping it costs its op once, whatever else is dropped:
// the first demand caches the whole run of dropped values up to a kept one.
TEST(Simulate, ReplaysEveryDroppedLinkOfAChainOnce) {
  const ChainOptions chain{.bytes = {3, 5, 7, 11, 13}, .seconds = {1, 2, 4, 8, 16}};
  const Graph graph = test::chain_graph(chain);
  for (unsigned kept = 0; kept < 16; ++kept) {
    KeptSet keep(graph.values.size(), 0);
    double seconds = 0;
    std::int64_t retained_bytes = 13;  // the last output still belongs to the program
    for (int i = 0; i < 4; ++i) {
      const bool is_kept = ((kept >> i) & 1U) != 0;
      keep[i + 1] = is_kept ? 1 : 0;
      retained_bytes += is_kept ? chain.bytes[i] : 0;
      seconds += is_kept ? 0 : chain.seconds[i];
    }
    const Simulation result = simulate(graph, keep);
    EXPECT_EQ(result.seal_bytes, retained_bytes) << kept;
    EXPECT_EQ(result.replay_seconds, seconds) << kept;
    EXPECT_EQ(result.replay_flops, seconds) << kept;
  }
}

// Values 1..4 of the chain are saved and dropped; value 5 is the last and stays with the program.
TEST(Simulate, ReplaysAgainWhatAListedSweepDoesNotCache) {
  const Graph graph = test::chain_graph({.bytes = {1, 1, 1, 1, 1}, .seconds = {1, 2, 4, 8, 16}});
  const std::vector<Sweep> sweeps{{.target = 4, .cached = {2}}};
  const Simulation result = simulate(graph, drop_all(graph), sweeps);
  // 1, 2, 3 and 4 for value 4; 3 from the cached 2; 2 is there; 1 once more.
  EXPECT_EQ(result.replay_seconds, 1 + 2 + 4 + 8 + 4 + 1);
  EXPECT_EQ(result.num_replayed_ops, 6);
  EXPECT_EQ(simulate(graph, drop_all(graph)).num_replayed_ops, 4);
}

TEST(Simulate, HoldsAListedValueWithoutHandlesUntilItsLastReaderIsDone) {
  StepBuilder step;
  const Index x = step.external();
  const Index unsaved = step.run({.reads = {x}, .fresh_bytes = {100}}).front();
  const Index first = step.run({.reads = {unsaved}, .fresh_bytes = {10}}).front();
  const Index second = step.run({.reads = {unsaved}, .fresh_bytes = {20}}).front();
  step.save(first);
  step.run({.reads = {second}, .fresh_bytes = {1}});
  step.save(second);
  const Graph graph = step.finish();
  const std::vector<Sweep> sweeps{{.target = second, .cached = {unsaved}}};
  EXPECT_EQ(simulate(graph, drop_all(graph)).num_replayed_ops, 4);
  EXPECT_EQ(simulate(graph, drop_all(graph), sweeps).num_replayed_ops, 3);
  Timeline timeline;
  Simulator(graph).run(drop_all(graph), sweeps, timeline);
  EXPECT_EQ(timeline.live_bytes.back(), 1) << "the last output stays with the program";
}

TEST(Simulate, RejectsSweepsThatDoNotFitTheGraph) {
  StepBuilder step;
  const Index made = step.run({.reads = {step.external()}, .fresh_bytes = {8}}).front();
  step.run({.overwrites = {made}});
  const Graph graph = step.finish();
  const auto expect_fault = [&](const std::vector<Sweep>& sweeps, const char* part) {
    test::expect_invalid([&] { simulate(graph, KeptSet(3, 0), sweeps); }, part);
  };
  expect_fault({{.target = 3}}, "target of a sweep is 3, but must be a value of the graph");
  expect_fault({{.target = 1}}, "target of a sweep is 1, but must be the last version");
  expect_fault({{.target = 2}, {.target = 2}}, "above the one before it, 2");
  expect_fault({{.target = 2, .cached = {2, 0}}}, "a value cached by a sweep is 0");
  expect_fault({{.target = -1}}, "target of a sweep is -1");
}

TEST(Simulate, FindsThePeakOfAChainInBackward) {
  const Graph graph = test::chain_graph({.bytes = {10, 20, 40}, .seconds = {1, 1, 1}});
  // Plain: 70 saved, then 20 more for the gradient of the last input.
  EXPECT_EQ(simulate(graph, keep_all(graph)).peak_bytes, 90);
  // All dropped but the output: forward holds 20 + 40 at most; backward needs all of it again.
  EXPECT_EQ(simulate(graph, drop_all(graph)).seal_bytes, 40);
  EXPECT_EQ(simulate(graph, drop_all(graph)).peak_bytes, 90);
}

TEST(Simulate, HoldsNothingThatNoReplayAndNoHandleWants) {
  StepBuilder step;
  const Index x = step.external();
  const Index unsaved = step.run({.reads = {x}, .fresh_bytes = {100}}).front();
  const Index saved = step.run({.reads = {unsaved}, .fresh_bytes = {10}}).front();
  step.run({.reads = {saved}, .fresh_bytes = {1}});
  step.save(saved);
  const Graph graph = step.finish();
  EXPECT_EQ(simulate(graph, KeptSet{1, 1, 1, 1}).seal_bytes, 11);
  EXPECT_EQ(simulate(graph, KeptSet{0, 1, 0, 0}).seal_bytes, 101);
}

TEST(Simulate, ClonesAKeptValueThatAReplayOverwrites) {
  Graph graph;
  graph.stages = {{"only"}};
  graph.values = {{},
                  {.bytes = 8, .producer = 0, .overwritten_by = 2, .snapshot = true},
                  {.bytes = 8, .producer = 1, .overwrites = 1, .saved = true}};
  graph.ops = {{.name = "make", .inputs = {0}, .outputs = {1}, .transient_bytes = 8},
               {.name = "add_", .inputs = {1}, .outputs = {2}}};
  graph.events = {event(EventKind::run_op, 0), event(EventKind::run_op, 1),
                  event(EventKind::save, 2),   event(EventKind::death, 2),
                  event(EventKind::seal, -1),  event(EventKind::demand, 2),
                  event(EventKind::release, 2)};
  std::vector<std::int64_t> live;
  const Simulation result = simulate(graph, KeptSet(3, 0), live);
  EXPECT_EQ(live, (std::vector<std::int64_t>{8, 16, 16, 8, 8, 16, 0}));
  EXPECT_EQ(result.num_replayed_ops, 1);
}

/// Two ops in a row, the second of which joins the first. Backward wants what it makes, and what
/// the first makes where that `is_saved`.
Graph joined_graph(bool is_saved) {
  Graph graph;
  graph.stages = {{"only"}};
  graph.values = {{},
                  {.bytes = 8, .producer = 0, .saved = is_saved},
                  {.bytes = 8, .producer = 1, .saved = true}};
  graph.ops = {
      {.name = "make", .inputs = {0}, .outputs = {1}, .replay_seconds = 5, .transient_bytes = 8},
      {.name = "join",
       .inputs = {1},
       .outputs = {2},
       .replay_seconds = 3,
       .transient_bytes = 9,
       .joins = true,
       .joined_seconds = 1}};
  graph.events = {event(EventKind::run_op, 0), event(EventKind::run_op, 1)};
  if (is_saved) graph.events.push_back(event(EventKind::save, 1));
  graph.events.insert(
      graph.events.end(),
      {event(EventKind::save, 2), event(EventKind::death, 1), event(EventKind::death, 2),
       event(EventKind::seal, -1), event(EventKind::demand, 2), event(EventKind::release, 2)});
  if (is_saved) graph.events.push_back(event(EventKind::release, 1));
  return graph;
}

TEST(Simulate, AJoinedOpTakesTheMemoryOfTheOneBeforeIt) {
  const Graph graph = joined_graph(false);
  Timeline timeline;
  const Simulation result = Simulator(graph).run(KeptSet(3, 0), timeline);
  EXPECT_EQ(timeline.peak_bytes, (std::vector<std::int64_t>{8, 17, 16, 16, 8, 0, 8, 8}));
  EXPECT_EQ(result.replay_seconds, 6);
  EXPECT_EQ(simulate(graph, KeptSet{0, 1, 0}).replay_seconds, 3);
}

TEST(Simulate, AnOpDoesNotJoinWhatIsWantedElsewhere) {
  const Graph graph = joined_graph(true);
  Timeline timeline;
  const Simulation result = Simulator(graph).run(KeptSet(3, 0), timeline);
  EXPECT_EQ(timeline.peak_bytes, (std::vector<std::int64_t>{8, 17, 16, 16, 16, 8, 0, 17, 16, 8}));
  EXPECT_EQ(result.replay_seconds, 8);
}

TEST(Simulate, OneSimulatorGivesTheSameTwice) {
  const Graph graph = test::RandomGraph({.num_ops = 30}, 5).draw();
  Simulator simulator(graph);
  const Simulation first = simulator.run(drop_all(graph));
  simulator.run(keep_all(graph));
  EXPECT_EQ(simulator.run(drop_all(graph)), first);
}

TEST(Simulate, TimelineHoldsThePeakAndTheReplays) {
  const Graph graph = test::RandomGraph({.num_ops = 30}, 6).draw();
  Timeline timeline;
  const Simulation result = Simulator(graph).run(drop_all(graph), timeline);
  EXPECT_EQ(std::ranges::max(timeline.peak_bytes), result.peak_bytes);
  EXPECT_EQ(timeline.peak_bytes[result.peak_event], result.peak_bytes);
  EXPECT_EQ(static_cast<std::int64_t>(timeline.replayed_ops.size()), result.num_replayed_ops);
}

TEST(Simulate, RejectsAKeptSetOfAnotherSize) {
  const Graph graph = test::chain_graph({.bytes = {1, 2}, .seconds = {1, 1}});
  try {
    simulate(graph, KeptSet(2, 0));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("keep.size() is 2"), std::string::npos);
  }
}

TEST(Simulate, ReportsAMustKeepValueThatIsGone) {
  Graph graph;
  graph.stages = {{"only"}};
  graph.values = {{},
                  {.bytes = 8, .producer = 0, .overwritten_by = 2, .must_keep = true},
                  {.bytes = 8, .producer = 1, .overwrites = 1, .saved = true}};
  graph.ops = {{.name = "make", .inputs = {0}, .outputs = {1}, .transient_bytes = 8},
               {.name = "add_", .inputs = {1}, .outputs = {2}}};
  graph.events = {event(EventKind::run_op, 0), event(EventKind::run_op, 1),
                  event(EventKind::save, 2),   event(EventKind::death, 2),
                  event(EventKind::seal, -1),  event(EventKind::demand, 2)};
  EXPECT_THROW(simulate(graph, KeptSet(3, 0)), std::logic_error);
}

}  // namespace
}  // namespace gradrecomp::plan
