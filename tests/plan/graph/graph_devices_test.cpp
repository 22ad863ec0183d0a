// The devices of a graph: what each sees of the step, and what validate() says of them.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/graph/as_one.h"
#include "plan/graph/two_halves.h"
#include "support/expect_error.h"
#include "support/plan/random_graph.h"
#include "support/plan/step_builder.h"
#include "support/plan/two_devices.h"

namespace gradrecomp::plan {
namespace {

using test::as_one;
using test::expect_invalid;
using test::random_two_devices;
using test::two_halves;

constexpr std::uint64_t kNumSeeds = 40;

std::vector<KeptSet> kept_sets(const Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  KeptSet some = keep_all(graph);
  for (auto& kept : some) kept &= random() % 2;
  return {keep_all(graph), drop_all(graph), some};
}

TEST(Devices, LiveBytesOfAllAreThoseOfTheStep) {
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    const Graph graph = random_two_devices(seed);
    for (const KeptSet& keep : kept_sets(graph, seed)) {
      Timeline all;
      const Simulation whole = Simulator(as_one(graph)).run(keep, all);
      Timeline first;
      Timeline second;
      const Simulation on_first = Simulator(on_device(graph, 0)).run(keep, first);
      const Simulation on_second = Simulator(on_device(graph, 1)).run(keep, second);
      for (std::size_t t = 0; t < all.live_bytes.size(); ++t) {
        EXPECT_EQ(first.live_bytes[t] + second.live_bytes[t], all.live_bytes[t]) << seed;
      }
      EXPECT_EQ(first.replayed_ops, all.replayed_ops);
      EXPECT_EQ(on_first.replay_seconds, whole.replay_seconds);
      EXPECT_EQ(on_second.replay_flops, whole.replay_flops);
    }
  }
}

TEST(Devices, SimulatorCountsTheMainOne) {
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    const Graph graph = random_two_devices(seed);
    for (const KeptSet& keep : kept_sets(graph, seed)) {
      EXPECT_EQ(simulate(graph, keep), simulate(on_device(graph, 0), keep));
    }
  }
}

TEST(Devices, TransientBytesAreThoseOfTheDevice) {
  const Graph graph = two_halves(4, 100);
  EXPECT_EQ(on_device(graph, 0).ops.front().transient_bytes, 4);
  EXPECT_EQ(on_device(graph, 0).ops.back().transient_bytes, 0);
  EXPECT_EQ(on_device(graph, 1).ops.front().transient_bytes, 0);
  EXPECT_EQ(on_device(graph, 1).ops.back().transient_bytes, 100);
}

TEST(Devices, OneDeviceIsSeenAsItIs) {
  const Graph graph = test::RandomGraph({}, 1).draw();
  const Graph seen = on_device(graph, 0);
  EXPECT_EQ(seen.values, graph.values);
  EXPECT_EQ(seen.ops, graph.ops);
  EXPECT_EQ(seen.events, graph.events);
  expect_invalid([&] { on_device(graph, 1); }, "on_device: device is 1, but must be from 0 to 0");
  EXPECT_TRUE(make_plan(graph, {.max_overhead = 0.1}).devices.empty());
}

/// validate() of a graph of two devices, changed by `change`, says `part`.
template <class Change>
void expect_fault(const Change& change, const std::string& part) {
  Graph graph = two_halves(4, 8);
  ASSERT_NO_THROW(validate(graph));
  change(graph);
  expect_invalid([&] { validate(graph); }, part);
}

TEST(Devices, ValidateNamesWhatIsOnNoDevice) {
  expect_fault([](Graph& g) { g.values[1].device = 2; },
               "device of value 1 is 2, but must be an index of devices");
  expect_fault([](Graph& g) { g.values[1].device = -1; }, "device of value 1 is -1");
  expect_fault([](Graph& g) { g.events.back().device = 7; }, "is 7, but must be an index of");
  expect_fault([](Graph& g) { g.events.front().device = 1; },
               "device of event 0 is 1, but must be 0 as it is not outside memory");
  expect_fault([](Graph& g) { g.devices = {"cpu"}; }, "num devices is 1, but must be 0 or");
  expect_fault([](Graph& g) { g.devices.clear(); }, "is 1, but must be 0, the only one");
}

TEST(Devices, ValidateNamesTransientBytesOfNoDevice) {
  expect_fault(
      [](Graph& g) {
        g.ops[0].further_transient_bytes = {1, 2};
      },
      "num further_transient_bytes of op 0 (link) is 2, but must be 0 or 1, one for each");
  expect_fault([](Graph& g) { g.ops[0].further_transient_bytes = {-3}; },
               "further_transient_bytes of op 0 (link) is -3, but must be at least 0");
}

TEST(Devices, ValidateNamesWhatChangesItsDevice) {
  test::StepBuilder step;
  const Index made = step.run({.reads = {step.external()}, .fresh_bytes = {4}}).front();
  step.save(step.run({.name = "write", .overwrites = {made}}).front());
  Graph graph = step.finish();
  graph.devices = {"cuda:0", "cpu"};
  graph.values[2].device = 1;
  expect_invalid([&] { validate(graph); },
                 "device of value 2 is 1, but must be that of the storage it overwrites");
  expect_fault(
      [](Graph& g) {
        g.ops[8].joins = true;  // the first of the other device
      },
      "joins of op 8 (link) is true, but must be false as it makes its output on another device");
}

}  // namespace
}  // namespace gradrecomp::plan
