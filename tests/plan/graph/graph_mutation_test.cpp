// validate() stands between files and the simulator: whatever it lets pass can be simulated.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "support/plan/random_chain.h"
#include "support/plan/random_graph.h"
#include "support/plan/two_devices.h"

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

using Kept = std::vector<std::uint8_t>;

/// Nothing, everything, and some of both.
std::vector<Kept> kept_sets(std::size_t num_values, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Kept> sets{Kept(num_values, 0), Kept(num_values, 1)};
  for (int i = 0; i < 3; ++i) {
    for (auto& kept : sets.emplace_back(num_values)) kept = random() % 2;
  }
  return sets;
}

/// Changes one field of a good graph at a time, and puts it back.
class Mutation {
 public:
  Mutation(Graph graph, std::uint64_t seed) : graph_(std::move(graph)), seed_(seed) {}

  void run() {
    expect_simulated("nothing");
    ASSERT_EQ(num_refused_, 0) << "the graph itself";
    for (std::size_t v = 0; v < graph_.values.size(); ++v) change_value(v);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) change_op(i);
    for (std::size_t t = 0; t < graph_.events.size(); ++t) change_event(t);
  }

  [[nodiscard]] int num_refused() const { return num_refused_; }
  [[nodiscard]] int num_simulated() const { return num_simulated_; }

 private:
  void expect_simulated(const std::string& changed) {
    try {
      validate(graph_);
    } catch (const std::invalid_argument&) {
      ++num_refused_;
      return;
    }
    ++num_simulated_;
    Simulator simulator(graph_);
    for (const Kept& keep : kept_sets(graph_.values.size(), seed_)) {
      try {
        EXPECT_GE(simulator.run(keep).peak_bytes, 0) << changed;
      } catch (const std::exception& error) {
        ADD_FAILURE() << changed << ", which validate() lets pass: " << error.what();
      }
    }
  }

  template <class Field>
  void change(const std::string& name, Field& field, const std::vector<Field>& to) {
    const Field original = field;
    for (const Field& other : to) {
      if (other == original) continue;
      field = other;
      expect_simulated(name);
    }
    field = original;
  }

  void flip(const std::string& name, bool& flag) {
    flag = !flag;
    expect_simulated(name);
    flag = !flag;
  }

  void change_bytes(const std::string& name, std::int64_t& bytes) {
    change(name, bytes, {0, 1, -1, bytes + 1, bytes - 1, kMostBytes, -kMostBytes - 1});
  }

  void change_index(const std::string& name, Index& index) {
    std::vector<Index> others{-2, index - 1, index + 1, std::numeric_limits<Index>::max()};
    const auto num = static_cast<Index>(graph_.values.size());
    for (Index v = -1; v <= num; ++v) others.push_back(v);
    change(name, index, others);
  }

  void change_cost(const std::string& name, double& cost) {
    change(name, cost,
           {0, -1, 1e300, std::numeric_limits<double>::quiet_NaN(),
            std::numeric_limits<double>::infinity()});
  }

  void change_list(const std::string& name, std::vector<Index>& list) {
    const std::vector<Index> original = list;
    for (std::size_t i = 0; i < list.size(); ++i) change_index(name, list[i]);
    for (Index v = -1; v <= static_cast<Index>(graph_.values.size()); ++v) {
      list.push_back(v);
      expect_simulated(name + " with one more");
      list = original;
    }
    for (std::size_t i = 0; i < original.size(); ++i) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      expect_simulated(name + " with one less");
      list = original;
    }
  }

  void change_value(std::size_t v) {
    Value& value = graph_.values[v];
    const std::string of = " of value " + std::to_string(v);
    flip("must_keep" + of, value.must_keep);
    flip("snapshot" + of, value.snapshot);
    flip("saved" + of, value.saved);
    change_bytes("bytes" + of, value.bytes);
    change_index("producer" + of, value.producer);
    change_index("overwrites" + of, value.overwrites);
    change_index("overwritten_by" + of, value.overwritten_by);
    change_index("device" + of, value.device);
  }

  void change_op(std::size_t i) {
    Op& op = graph_.ops[i];
    const std::string of = " of op " + std::to_string(i);
    flip("is_part" + of, op.is_part);
    flip("by_kernel" + of, op.by_kernel);
    flip("joins" + of, op.joins);
    change_bytes("transient_bytes" + of, op.transient_bytes);
    change_index("stage" + of, op.stage);
    for (auto& bytes : op.further_transient_bytes) {
      change_bytes("further_transient_bytes" + of, bytes);
    }
    change_list("inputs" + of, op.inputs);
    change_list("outputs" + of, op.outputs);
    for (auto* cost : {&op.forward_seconds, &op.replay_seconds, &op.flops, &op.bytes_moved,
                       &op.joined_seconds}) {
      change_cost("a cost" + of, *cost);
    }
  }

  void change_event(std::size_t t) {
    Event& event = graph_.events[t];
    const std::string of = " of event " + std::to_string(t);
    const Event original = event;
    for (int kind = 0; kind < 9; ++kind) {
      event.kind = static_cast<EventKind>(kind);
      expect_simulated("kind" + of);
      event = original;
    }
    change_index("id" + of, event.id);
    change_bytes("net_bytes" + of, event.net_bytes);
    change_bytes("peak_bytes" + of, event.peak_bytes);
    change_index("device" + of, event.device);
    change_order(t);
  }

  void change_order(std::size_t t) {
    const std::vector<Event> original = graph_.events;
    const std::string name = "event " + std::to_string(t);
    const auto place = static_cast<std::ptrdiff_t>(t);
    graph_.events.insert(graph_.events.begin() + place, original[t]);
    expect_simulated(name + " twice");
    graph_.events = original;
    graph_.events.erase(graph_.events.begin() + place);
    expect_simulated(name + " left out");
    graph_.events = original;
    if (t + 1 == original.size()) return;
    std::swap(graph_.events[t], graph_.events[t + 1]);
    expect_simulated(name + " after the next");
    graph_.events = original;
  }

  Graph graph_;
  std::uint64_t seed_;
  int num_refused_ = 0;
  int num_simulated_ = 0;
};

void expect_refused_or_simulated(const std::function<Graph(std::uint64_t)>& draw) {
  int num_refused = 0;
  int num_simulated = 0;
  for (std::uint64_t seed = 0; seed < 12 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Mutation mutation(draw(seed), seed);
    mutation.run();
    num_refused += mutation.num_refused();
    num_simulated += mutation.num_simulated();
  }
  EXPECT_GT(num_refused, 1000);
  EXPECT_GT(num_simulated, 1000);
}

TEST(GraphMutation, OfAnyGraphIsRefusedOrSimulated) {
  expect_refused_or_simulated([](std::uint64_t seed) {
    return test::RandomGraph({.num_ops = 9, .in_place_chance = 50, .must_keep_chance = 20}, seed)
        .draw();
  });
}

TEST(GraphMutation, OfAGraphOfTwoDevicesIsRefusedOrSimulated) {
  expect_refused_or_simulated([](std::uint64_t seed) {
    return test::random_two_devices(seed, {.num_ops = 9, .in_place_chance = 50});
  });
}

TEST(GraphMutation, OfAChainOfBlocksIsRefusedOrSimulated) {
  expect_refused_or_simulated([](std::uint64_t seed) {
    return test::RandomChain({.num_blocks = 3, .in_place_chance = 40, .must_keep_chance = 10}, seed)
        .draw();
  });
}

}  // namespace
}  // namespace gradrecomp::plan
