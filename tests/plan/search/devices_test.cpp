// Plans for steps on several devices: budgets that hold on all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/plan_file.h"
#include "gradrecomp/plan/predict.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/graph/two_halves.h"
#include "support/plan/random_graph.h"
#include "support/plan/step_builder.h"
#include "support/plan/two_devices.h"

namespace gradrecomp::plan {
namespace {

using test::random_two_devices;
using test::two_halves;

constexpr std::uint64_t kNumSeeds = 40;

Simulation on(const Graph& graph, Index device, const Plan& plan) {
  return simulate(on_device(graph, device), plan.keep, plan.sweeps);
}

/// The peaks that `plan` says of each device are those of the simulator there.
void expect_predicted_on_each(const Graph& graph, const Plan& plan) {
  ASSERT_EQ(plan.devices.size(), graph.devices.size());
  EXPECT_EQ(plan.predicted_peak_bytes, plan.devices[0].predicted_peak_bytes);
  EXPECT_EQ(plan.predicted_plain_peak_bytes, plan.devices[0].predicted_plain_peak_bytes);
  for (Index d = 0; d < num_devices(graph); ++d) {
    EXPECT_EQ(plan.devices[d].device, graph.devices[d]);
    EXPECT_EQ(plan.devices[d].predicted_peak_bytes, on(graph, d, plan).peak_bytes);
    EXPECT_EQ(plan.devices[d].predicted_plain_peak_bytes,
              simulate(on_device(graph, d), keep_all(graph)).peak_bytes);
  }
}

/// Offloads take values of the main device alone, and of no other one more than next to nothing.
void expect_offloads_of_the_main_one(const Graph& graph, const Plan& plan) {
  for (const Offload& offload : plan.offloads) EXPECT_EQ(graph.values[offload.value].device, 0);
  for (std::size_t d = 1; d < plan.devices.size(); ++d) {
    EXPECT_LE(plan.devices[d].predicted_peak_bytes, plan.predicted_plain_peak_bytes / 256);
  }
  EXPECT_EQ(plan.devices, predict(graph, plan).devices);
}

bool holds_on_each(const Plan& plan, std::int64_t max_peak_bytes) {
  return std::ranges::all_of(plan.devices, [=](const DevicePeak& peak) {
    return peak.predicted_peak_bytes <= max_peak_bytes;
  });
}

std::int64_t sum_of_peaks(const Plan& plan) {
  std::int64_t sum = 0;
  for (const DevicePeak& peak : plan.devices) sum += peak.predicted_peak_bytes;
  return sum;
}

/// Tries every kept set of a small graph of two devices.
class Everything {
 public:
  explicit Everything(const Graph& graph)
      : graph_(graph), first_(on_device(graph, 0)), second_(on_device(graph, 1)) {
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const Value& x = graph.values[v];
      if (x.producer >= 0 && x.overwritten_by < 0 && !x.must_keep) open_.push_back(v);
    }
  }

  std::int64_t least_worst_peak() {
    auto least = std::numeric_limits<std::int64_t>::max();
    for_each([&](const Simulation& first, const Simulation& second) {
      least = std::min(least, std::max(first.peak_bytes, second.peak_bytes));
    });
    return least;
  }

  /// Of those that raise neither peak.
  std::int64_t least_sum_of_peaks(double max_overhead) {
    const KeptSet all = keep_all(graph_);
    const std::int64_t most_on_first = first_.run(all).peak_bytes;
    const std::int64_t most_on_second = second_.run(all).peak_bytes;
    auto least = std::numeric_limits<std::int64_t>::max();
    for_each([&](const Simulation& first, const Simulation& second) {
      if (first.replay_seconds > max_overhead * graph_.step_seconds) return;
      if (first.peak_bytes > most_on_first || second.peak_bytes > most_on_second) return;
      least = std::min(least, first.peak_bytes + second.peak_bytes);
    });
    return least;
  }

 private:
  template <class Visit>
  void for_each(const Visit& visit) {
    KeptSet keep = drop_all(graph_);
    for (std::uint64_t set = 0; set < std::uint64_t{1} << open_.size(); ++set) {
      for (std::size_t i = 0; i < open_.size(); ++i) keep[open_[i]] = set >> i & 1;
      visit(first_.run(keep), second_.run(keep));
    }
  }

  const Graph& graph_;
  Simulator first_;
  Simulator second_;
  std::vector<std::size_t> open_;
};

TEST(Devices, FixedPoliciesArePredictedOnEach) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Graph graph = random_two_devices(seed);
    for (const char* policy : {"keep_all", "drop_all", "every_1", "nested", "chen_greedy"}) {
      const Plan plan = make_plan(graph, {.policy = policy});
      expect_predicted_on_each(graph, plan);
      EXPECT_EQ(predict(graph, plan).devices, plan.devices);
    }
  }
}

TEST(Devices, OverheadOfAllIsWithinTheBudget) {
  int num_lowered = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_two_devices(seed);
    for (const double budget : {0.0, 0.05, 0.2, 1.0}) {
      const Plan plan = make_plan(graph, {.max_overhead = budget});
      expect_predicted_on_each(graph, plan);
      EXPECT_TRUE(plan.feasible);
      EXPECT_LE(plan.predicted_overhead_seconds, budget);
      EXPECT_EQ(plan.predicted_overhead_seconds,
                on(graph, 1, plan).replay_seconds / graph.step_seconds);
      for (const auto& [device, peak_bytes, plain_peak_bytes] : plan.devices) {
        EXPECT_LE(peak_bytes, plain_peak_bytes) << device;
        num_lowered += peak_bytes < plain_peak_bytes ? 1 : 0;
      }
    }
  }
  EXPECT_GT(num_lowered, 10);
}

// Graphs whose best plan is missed where one device gets the whole budget first, or where fixed
// policies are not looked at.
TEST(Devices, OverheadIsSharedWell) {
  struct Case {
    std::uint64_t seed;
    double max_overhead;
  };
  for (const auto [seed, max_overhead] : {Case{17, 0.2}, {132, 0.08}, {8, 0.2}, {113, 0.5}}) {
    const Graph graph = random_two_devices(seed, {.num_ops = 8, .save_chance = 70});
    const Plan plan = make_plan(graph, {.max_overhead = max_overhead});
    EXPECT_EQ(sum_of_peaks(plan), Everything(graph).least_sum_of_peaks(max_overhead)) << seed;
  }
}

TEST(Devices, OverheadLowersThePeakOfEach) {
  const Graph graph = two_halves(50, 40);
  const Plan plan = make_plan(graph, {.max_overhead = 0.25});
  for (const auto& [device, peak_bytes, plain_peak_bytes] : plan.devices) {
    EXPECT_LT(peak_bytes, plain_peak_bytes) << device;
  }
}

TEST(Devices, PeakBudgetHoldsOnEachOrIsInfeasible) {
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_two_devices(seed, {.num_ops = 8});
    const std::int64_t least = Everything(graph).least_worst_peak();
    for (const std::int64_t bytes : {least - 1, least, least + least / 8}) {
      const Plan plan = make_plan(graph, {.max_peak_bytes = bytes});
      expect_predicted_on_each(graph, plan);
      EXPECT_EQ(plan.feasible, bytes >= least);
      EXPECT_EQ(holds_on_each(plan, bytes), bytes >= least);
    }
  }
}

TEST(Devices, PeaksAreTheLeastWithinTheOverhead) {
  int num_lowered = 0;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_two_devices(seed, {.num_ops = 8});
    const Plan plan = make_plan(graph, {.max_overhead = 0.2});
    const std::int64_t least = Everything(graph).least_sum_of_peaks(0.2);
    EXPECT_EQ(sum_of_peaks(plan), least);
    num_lowered += least < sum_of_peaks(make_plan(graph, {.policy = "keep_all"})) ? 1 : 0;
  }
  EXPECT_GT(num_lowered, 5);
}

TEST(Devices, PeakBudgetThatOneDeviceMissesDropsThere) {
  const Graph graph = two_halves(10, 80);
  const Plan plain = make_plan(graph, {.policy = "keep_all"});
  const std::int64_t bytes = plain.devices[1].predicted_peak_bytes * 3 / 4;
  ASSERT_LT(plain.devices[0].predicted_peak_bytes, bytes);
  const Plan plan = make_plan(graph, {.max_peak_bytes = bytes});
  EXPECT_TRUE(plan.feasible);
  EXPECT_TRUE(holds_on_each(plan, bytes));
  EXPECT_GT(plan.num_replayed_ops, 0);
  for (std::size_t v = 0; v < plan.keep.size(); ++v) {
    const Value& x = graph.values[v];
    EXPECT_TRUE(x.device == 1 || x.producer < 0 || plan.keep[v] == plain.keep[v]) << v;
  }
}

TEST(Devices, NoFixedPolicyWithinTheOverheadIsBetter) {
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    const Graph graph = random_two_devices(seed);
    for (const char* policy : {"drop_all", "sqrt_n", "pointwise_only", "every_1", "every_2"}) {
      const Plan fixed = make_plan(graph, {.policy = policy});
      const bool is_low = std::ranges::all_of(fixed.devices, [](const DevicePeak& peak) {
        return peak.predicted_peak_bytes <= peak.predicted_plain_peak_bytes;
      });
      if (!is_low) continue;
      const Plan plan = make_plan(graph, {.max_overhead = fixed.predicted_overhead_seconds});
      EXPECT_LE(sum_of_peaks(plan), sum_of_peaks(fixed)) << seed << ", " << policy;
    }
  }
}

TEST(Devices, OneThatABoundIsAboutAloneMayHaveANestedPlan) {
  const Graph graph = two_halves(1, 100);
  const Plan plain = make_plan(graph, {.policy = "keep_all"});
  const Plan least = make_plan(graph, {.max_peak_bytes = plain.predicted_peak_bytes});
  EXPECT_FALSE(least.feasible);
  const Plan plan = make_plan(graph, {.max_peak_bytes = least.devices[1].predicted_peak_bytes});
  EXPECT_TRUE(plan.feasible);
  EXPECT_FALSE(plan.sweeps.empty());
  expect_predicted_on_each(graph, plan);
}

TEST(Devices, PeakBudgetThatBothMissDropsOnBoth) {
  const Graph graph = two_halves(80, 80);
  const Plan plain = make_plan(graph, {.policy = "keep_all"});
  const std::int64_t bytes =
      std::min(plain.devices[0].predicted_peak_bytes, plain.devices[1].predicted_peak_bytes) - 100;
  const Plan plan = make_plan(graph, {.max_peak_bytes = bytes});
  EXPECT_TRUE(plan.feasible);
  EXPECT_TRUE(holds_on_each(plan, bytes));
}

TEST(Devices, WhatIsNextToNothingElsewhereDoesNotChangeThePlan) {
  Graph graph = test::RandomGraph({.num_ops = 30}, 3).draw();
  for (Value& v : graph.values) v.bytes *= 1000;
  const Plan alone = make_plan(graph, {.max_overhead = 0.3});
  graph.devices = {"cuda:0", "cpu"};
  graph.events.insert(graph.events.begin(), {EventKind::outside, -1, 1, 1, 1});
  const Plan plan = make_plan(graph, {.max_overhead = 0.3});
  EXPECT_EQ(plan.keep, alone.keep);
  EXPECT_EQ(plan.sweeps, alone.sweeps);
  EXPECT_EQ(plan.proven_peak_bytes, alone.proven_peak_bytes);
}

/// Attention on a card, whose seeds are on the host, with dearer ops between. The peak is in the
/// large ones behind, so that the last attention, which is cheap, is replayed while all seeds live.
Graph with_seeds_on_the_host(int num_ops) {
  test::StepBuilder step;
  Index x = step.external();
  std::vector<Index> seeds;
  for (int i = 0; i < num_ops; ++i) {
    const double seconds = i + 1 == num_ops ? 0.001 : 0.2;
    const auto made = step.run({.reads = {x}, .fresh_bytes = {1 << 20, 8}, .seconds = seconds});
    for (const Index v : made) step.save(v);
    seeds.push_back(made[1]);
    x = step.run({.reads = {made[0]}, .fresh_bytes = {4 << 20}}).front();
    step.save(x);
  }
  for (int i = 0; i < 2; ++i) {
    x = step.run({.reads = {x}, .fresh_bytes = {32 << 20}}).front();
    step.save(x);
  }
  Graph graph = step.finish();
  graph.devices = {"cuda:0", "cpu"};
  for (const Index seed : seeds) graph.values[seed].device = 1;
  for (Op& op : graph.ops) {
    op.further_transient_bytes = {op.outputs.size() > 1 ? 8 : 0};
    op.transient_bytes -= op.further_transient_bytes[0];
  }
  return graph;
}

// What is replayed twice makes its seed once more, while others live.
TEST(Devices, SeedsOnTheHostDoNotStandInTheWayOfNestedPlans) {
  const Graph graph = with_seeds_on_the_host(16);
  bool any_nested = false;
  bool any_higher = false;
  for (const double budget : {0.05, 0.2, 0.5, 1.0}) {
    SCOPED_TRACE(budget);
    const Plan plan = make_plan(graph, {.max_overhead = budget});
    const Plan alone = make_plan(on_device(graph, 0), {.max_overhead = budget});
    EXPECT_EQ(plan.predicted_peak_bytes, alone.predicted_peak_bytes);
    expect_predicted_on_each(graph, plan);
    any_nested |= !plan.sweeps.empty();
    any_higher |= plan.devices[1].predicted_peak_bytes > plan.devices[1].predicted_plain_peak_bytes;
  }
  EXPECT_TRUE(any_nested);
  EXPECT_TRUE(any_higher);
}

TEST(Devices, OneThatTheBudgetIsAboutAloneMayOffload) {
  const Graph graph = with_seeds_on_the_host(16);
  const HostLink link{
      .store_bytes_per_second = 1 << 20, .fetch_bytes_per_second = 1 << 20, .overlaps = true};
  const Request request{.max_overhead = 0.05, .host_link = link};
  const Plan plan = make_plan(graph, request);
  EXPECT_FALSE(plan.offloads.empty());
  EXPECT_LT(plan.predicted_peak_bytes,
            make_plan(graph, {.max_overhead = 0.05}).predicted_peak_bytes);
  expect_offloads_of_the_main_one(graph, plan);
  EXPECT_TRUE(make_plan(two_halves(50, 40), request).offloads.empty());
}

TEST(Devices, SelectionsHoldOnEach) {
  const Graph graph = two_halves(50, 40);
  const Plan plan = make_plan(graph, {.max_overhead = 0.5, .selection = {.keep_ops = {"link"}}});
  EXPECT_EQ(plan.keep, make_plan(graph, {.policy = "keep_all"}).keep);
}

TEST(Devices, PlansAreTheSameEachTime) {
  const Graph graph = random_two_devices(7, {.num_ops = 30});
  const Request request{.max_overhead = 0.3};
  EXPECT_EQ(plan_text({make_plan(graph, request)}), plan_text({make_plan(graph, request)}));
}

TEST(Devices, FrontIsThatOfTheMainOne) {
  const Graph graph = two_halves(50, 40);
  const auto front = make_front(graph, {});
  ASSERT_GT(front.size(), 2U);
  for (const Plan& plan : front) {
    expect_predicted_on_each(graph, plan);
    for (std::size_t v = 0; v < plan.keep.size(); ++v) {
      const Value& x = graph.values[v];
      EXPECT_TRUE(x.device == 0 || !x.saved || plan.keep[v] == 1);
    }
  }
}

}  // namespace
}  // namespace gradrecomp::plan
