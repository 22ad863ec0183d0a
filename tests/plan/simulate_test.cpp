#include "gradrecomp/plan/simulate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "support/random_graph.h"
#include "support/reference_executor.h"
#include "support/step_builder.h"

namespace gradrecomp::plan {
namespace {

using testing::ChainOptions;
using testing::StepBuilder;

Event event(EventKind kind, Index id) { return {.kind = kind, .id = id}; }

KeptSet random_set(std::size_t size, std::mt19937_64& random) {
  KeptSet keep(size);
  const std::uint64_t percent = random() % 101;
  for (auto& bit : keep) bit = random() % 100 < percent ? 1 : 0;
  return keep;
}

/// The simulation equals that of the reference, live bytes after every event included.
void expect_reference(const Graph& graph, const KeptSet& keep) {
  testing::ReferenceExecutor reference(graph, keep);
  const Simulation expected = reference.run();
  std::vector<std::int64_t> live;
  EXPECT_EQ(simulate(graph, keep, live), expected);
  EXPECT_EQ(live, reference.live_after_event);
}

void fuzz(const testing::RandomGraphOptions& options, int num_graphs) {
  for (int seed = 0; seed < num_graphs && !::testing::Test::HasFailure(); ++seed) {
    const Graph graph = testing::RandomGraph(options, seed).draw();
    ASSERT_NO_THROW(validate(graph)) << "seed " << seed;
    std::mt19937_64 random(seed);
    for (int i = 0; i < 4; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      expect_reference(graph, random_set(graph.values.size(), random));
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

// In a chain value i costs bytes[i], and dropping it costs its op once, whatever else is dropped:
// the first demand caches the whole run of dropped values up to a kept one.
TEST(Simulate, ReplaysEveryDroppedLinkOfAChainOnce) {
  const ChainOptions chain{.bytes = {3, 5, 7, 11, 13}, .seconds = {1, 2, 4, 8, 16}};
  const Graph graph = testing::chain_graph(chain);
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

TEST(Simulate, FindsThePeakOfAChainInBackward) {
  const Graph graph = testing::chain_graph({.bytes = {10, 20, 40}, .seconds = {1, 1, 1}});
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

TEST(Simulate, OneSimulatorGivesTheSameTwice) {
  const Graph graph = testing::RandomGraph({.num_ops = 30}, 5).draw();
  Simulator simulator(graph);
  const Simulation first = simulator.run(drop_all(graph));
  simulator.run(keep_all(graph));
  EXPECT_EQ(simulator.run(drop_all(graph)), first);
}

TEST(Simulate, TimelineHoldsThePeakAndTheReplays) {
  const Graph graph = testing::RandomGraph({.num_ops = 30}, 6).draw();
  Timeline timeline;
  const Simulation result = Simulator(graph).run(drop_all(graph), timeline);
  EXPECT_EQ(std::ranges::max(timeline.peak_bytes), result.peak_bytes);
  EXPECT_EQ(timeline.peak_bytes[result.peak_event], result.peak_bytes);
  EXPECT_EQ(static_cast<std::int64_t>(timeline.replayed_ops.size()), result.num_replayed_ops);
}

TEST(Simulate, RejectsAKeptSetOfAnotherSize) {
  const Graph graph = testing::chain_graph({.bytes = {1, 2}, .seconds = {1, 1}});
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
