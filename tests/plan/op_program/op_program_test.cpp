#include "plan/op_program/op_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/bounds/cost_units.h"
#include "plan/proof/lower_bound.h"
#include "support/plan/model_graphs.h"
#include "support/plan/nested_brute_force.h"
#include "support/plan/random_chain.h"
#include "support/plan/random_graph.h"
#include "support/plan/recorded_graphs.h"
#include "support/plan/step_builder.h"

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kAnyWork = std::numeric_limits<std::int64_t>::max();

Proof line_at(const Graph& graph, const ReplayCost& replay_cost, double overhead) {
  LowerBound bound(graph, replay_cost);
  bound.tighten(overhead, 30);
  return bound.proof_of(bound.best_line_at_overhead(overhead));
}

/// Weights and a price by chance.
Proof random_line(const Graph& graph, std::mt19937_64& random) {
  Proof line{.price = static_cast<std::int64_t>(random() >> (9 + random() % 50))};
  for (std::size_t t = 0; t < graph.events.size(); ++t) {
    if (random() % 4 != 0) continue;
    const auto weight = static_cast<std::int64_t>(random() >> (25 + random() % 20));
    line.moments.push_back({static_cast<Index>(t), weight + 1});
  }
  return line;
}

/// Compares what the program proves to all schedules of small steps.
class Comparison {
 public:
  void add(const Graph& graph) {
    if (num_choices(graph) > kMostChoices) return;
    const ReplayCost replay_cost(graph, CostModel::seconds);
    const test::NestedBruteForce all(graph);
    for (const auto& [peak_bytes, seconds] : all.front()) {
      const double overhead = replay_cost.seconds_ratio(seconds);
      OpProgram program(graph, replay_cost, line_at(graph, replay_cost, overhead));
      const PlanLimits limits{peak_bytes, units_around(overhead)};
      for (const int num_visits : {2, kMostVisits}) {
        const auto answer = program.find(limits, {kAnyWork, num_visits});
        if (answer.gave_up) continue;
        const auto priced = program.find_priced(limits, {kAnyWork, num_visits});
        EXPECT_TRUE(priced.exists) << peak_bytes;
        EXPECT_LE(priced.least_peak_bytes, peak_bytes);
        ++num_compared_;
        EXPECT_TRUE(answer.exists) << peak_bytes;
        constexpr std::int64_t kRounding = 64;  // units: of each op's cost, and of the sum
        EXPECT_LE(answer.units, units_around(overhead));
        num_exact_ += answer.units >= units_around(overhead) - kRounding ? 1 : 0;
      }
      follow_any_lines(graph, limits, program);
    }
  }

  [[nodiscard]] int num_compared() const { return num_compared_; }
  [[nodiscard]] double exact() const { return static_cast<double>(num_exact_) / num_compared_; }

 private:
  static constexpr std::ptrdiff_t kMostChoices = 8;

  /// Whatever the weights and the price: the schedule at the limits is not denied.
  void follow_any_lines(const Graph& graph, const PlanLimits& limits, OpProgram& program) {
    for (int i = 0; i < 4; ++i) {
      program.follow(random_line(graph, random_));
      for (const int num_visits : {2, 3, kMostVisits}) {
        for (const Rivals rivals : {Rivals::of_as_many_visits, Rivals::of_fewer_visits_too}) {
          const auto priced = program.find_priced(limits, {kAnyWork, num_visits, rivals});
          EXPECT_TRUE(priced.exists || priced.gave_up) << limits.peak_bytes;
        }
      }
    }
  }

  static std::ptrdiff_t num_choices(const Graph& graph) {
    return std::ranges::count_if(graph.values, [](const Value& x) {
      return x.producer >= 0 && x.overwritten_by < 0 && !x.must_keep;
    });
  }

  std::mt19937_64 random_{1};
  int num_compared_ = 0;
  int num_exact_ = 0;
};

TEST(OpProgram, ProvesWhatTheBestSchedulesOfChainsCost) {
  Comparison comparison;
  for (std::uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    comparison.add(test::random_chain_of_ops(3 + static_cast<int>(seed % 4), seed));
    const test::RandomChainOptions options{.num_blocks = 2 + static_cast<int>(seed % 3),
                                           .least_ops = 1,
                                           .most_ops = 3,
                                           .must_keep_chance = seed % 2 == 0 ? 10 : 0,
                                           .mask_chance = seed % 5 == 0 ? 50 : 0};
    comparison.add(test::RandomChain(options, seed).draw());
  }
  std::cout << comparison.num_compared() << " limits, " << 100 * comparison.exact() << "% exact\n";
  EXPECT_GE(comparison.num_compared(), 1000);
  EXPECT_GE(comparison.exact(), 0.95);
}

TEST(OpProgram, ProvesNothingThatASmallGraphDisproves) {
  Comparison comparison;
  for (std::uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const test::RandomGraphOptions options{.num_ops = 4 + static_cast<int>(seed % 5),
                                           .in_place_chance = seed % 2 == 0 ? 5 : 25,
                                           .must_keep_chance = seed % 4 == 0 ? 8 : 0,
                                           .death_chance = seed % 3 == 0 ? 40 : 70};
    comparison.add(test::RandomGraph(options, seed).draw());
  }
  std::cout << comparison.num_compared() << " limits, " << 100 * comparison.exact() << "% exact\n";
  EXPECT_GE(comparison.num_compared(), 500);
  EXPECT_GE(comparison.exact(), 0.75);
}

/// Cells that make a product of what the last one has made, gates of the product, and something of
/// all gates; backward asks for what it likes, mostly not for the product.
Graph random_cells(int num_cells, int save_chance, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  test::StepBuilder builder;
  Index last = builder.external();
  const auto run = [&](std::vector<Index> reads, int chance) {
    const Index made = builder
                           .run({.reads = std::move(reads),
                                 .fresh_bytes = {1 + below(6)},
                                 .seconds = 1.0 + below(6)})
                           .front();
    if (below(100) < chance) builder.save(made);
    return made;
  };
  for (int cell = 0; cell < num_cells; ++cell) {
    const Index product = run({last}, 15);
    const Index gate = run({product}, save_chance);
    const Index other = run({product}, save_chance);
    last = below(3) == 0 ? run({gate, other, last}, 60) : run({gate, other}, 60);
  }
  return builder.finish();
}

TEST(OpProgram, ProvesNothingThatCellsOfGatesDisprove) {
  Comparison comparison;
  for (std::uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    comparison.add(random_cells(2, 85, seed));
  }
  std::cout << comparison.num_compared() << " limits, " << 100 * comparison.exact() << "% exact\n";
  EXPECT_GE(comparison.num_compared(), 500);
}

// With so few demands no visits are merged, so that the least is the least of all.
TEST(OpProgram, NeedlessPartialPlansLeadToNothingCheaper) {
  std::mt19937_64 random(1);
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 600 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_cells(3, 25, seed);
    if (std::ranges::count(graph.events, EventKind::demand, &Event::kind) > kMostVisits) continue;
    const ReplayCost replay_cost(graph, CostModel::seconds);
    OpProgram program(graph, replay_cost, random_line(graph, random));
    const PlanLimits any{std::int64_t{1} << 20, units_around(4)};
    const auto least = [&](Rivals rivals) {
      return program.find_priced(any, {kAnyWork, kMostVisits, rivals}).least_peak_bytes;
    };
    EXPECT_EQ(least(Rivals::of_as_many_visits), least(Rivals::none));
    EXPECT_EQ(least(Rivals::of_fewer_visits_too), least(Rivals::none));
    ++num_compared;
  }
  EXPECT_GE(num_compared, 200);
}

// Where values outnumber what is told apart, less is proven, and nothing wrong.
TEST(OpProgram, ProvesNothingThatAWideGraphDisproves) {
  const auto step = [](int width) {
    test::StepBuilder builder;
    const Index x = builder.external();
    std::vector<Index> parts;
    for (int i = 0; i < width; ++i) {
      parts.push_back(builder.run({.name = "part", .reads = {x}, .fresh_bytes = {10 + i}}).front());
    }
    builder.save(builder.run({.name = "sum", .reads = parts, .fresh_bytes = {40}}).front());
    return builder.finish();
  };
  for (const int width : {5, 12}) {
    const Graph graph = step(width);
    const ReplayCost replay_cost(graph, CostModel::seconds);
    OpProgram program(graph, replay_cost, Proof{});
    const auto peak_bytes = simulate(graph, KeptSet(graph.values.size(), 0)).peak_bytes;
    EXPECT_TRUE(program.find({peak_bytes, units_around(1)}, {kAnyWork}).exists) << width;
    EXPECT_FALSE(program.find({39, units_around(1)}, {kAnyWork}).exists) << width;
  }
}

// In large steps partial plans stand for others, and visits for several.
TEST(OpProgram, DeniesNoPlanOfALargeStep) {
  const std::vector<Graph> graphs = {test::recorded_graph("fno"), test::recorded_graph("unet"),
                                     test::resnet_graph({3, 4, 6, 3}, 2),
                                     test::bert_graph(3, 2, 64)};
  int num_answers = 0;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    SCOPED_TRACE(g);
    for (const CostModel cost : {CostModel::seconds, CostModel::flops}) {
      const ReplayCost replay_cost(graphs[g], cost);
      const auto plans = make_front(graphs[g], {.cost = cost, .effort = 0});
      for (std::size_t i = 0; i < plans.size(); i += 3) {
        const Plan& plan = plans[i];
        const double overhead = plan.predicted_overhead(cost);
        OpProgram program(graphs[g], replay_cost, line_at(graphs[g], replay_cost, overhead));
        constexpr std::int64_t kWork = 3'000'000;
        const auto answer =
            program.find({plan.predicted_peak_bytes, units_around(overhead)}, {kWork});
        EXPECT_TRUE(answer.exists) << plan.predicted_peak_bytes << ' ' << overhead;
        const auto priced =
            program.find_priced({plan.predicted_peak_bytes, units_around(overhead)}, {kWork});
        EXPECT_TRUE(priced.exists) << plan.predicted_peak_bytes << ' ' << overhead;
        EXPECT_LE(priced.least_peak_bytes, plan.predicted_peak_bytes);
        num_answers += answer.gave_up ? 0 : 1;
      }
    }
  }
  std::cout << num_answers << " plans\n";
  EXPECT_GE(num_answers, 12);
}

TEST(OpProgram, GivesUpWhereThereIsTooMuchToDo) {
  const Graph graph = test::RandomChain({.num_blocks = 8}, 1).draw();
  const ReplayCost replay_cost(graph, CostModel::seconds);
  OpProgram program(graph, replay_cost, Proof{});
  const PlanLimits limits{simulate(graph, keep_all(graph)).peak_bytes / 2, units_around(0.3)};
  EXPECT_TRUE(program.find(limits, {10}).gave_up);
  EXPECT_FALSE(program.find(limits, {kAnyWork}).gave_up);
}

TEST(OpProgram, IsForOneBackwardPass) {
  const test::RandomGraphOptions options{.num_ops = 7, .pass_end_chance = 100};
  const Graph graph = test::RandomGraph(options, 3).draw();
  ASSERT_GT(std::ranges::count(graph.events, EventKind::pass_end, &Event::kind), 0);
  const ReplayCost replay_cost(graph, CostModel::seconds);
  const auto answer = OpProgram(graph, replay_cost, Proof{}).find({0, 0}, {kAnyWork});
  EXPECT_TRUE(answer.gave_up);
  EXPECT_TRUE(answer.exists);
}

}  // namespace
}  // namespace gradrecomp::plan
