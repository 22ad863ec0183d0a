#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/graph/wanted_values.h"
#include "support/plan/random_chain.h"
#include "support/plan/random_graph.h"
#include "support/plan/reference_executor.h"

namespace gradrecomp::plan {
namespace {

constexpr double kRounding = 1e-9;

double overhead_of(const Plan& plan) {
  return plan.cost == CostModel::seconds ? plan.predicted_overhead_seconds
                                         : plan.predicted_overhead_flops;
}

/// Draws a graph and everything that a request may say of it.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed), seed_(seed) {}

  Graph graph() {
    const int num_ops = 5 + below(below(6) == 0 ? 56 : 12);
    if (below(3) == 0) {
      return test::RandomChain({.num_blocks = std::max(1, num_ops / 4),
                                .must_keep_chance = below(20),
                                .boundary_chance = below(101),
                                .mask_chance = below(3) == 0 ? below(101) : 0},
                               seed_)
          .draw();
    }
    return test::RandomGraph({.num_ops = num_ops,
                              .in_place_chance = below(70),
                              .snapshot_chance = below(100),
                              .must_keep_chance = below(25),
                              .save_chance = 20 + below(80),
                              .death_chance = below(100)},
                             seed_)
        .draw();
  }

  CostModel cost() { return below(2) == 0 ? CostModel::seconds : CostModel::flops; }

  /// Nothing in half of the cases.
  Selection selection(const Graph& graph) {
    Selection drawn;
    if (below(2) == 0) return drawn;
    const auto some_op = [&] { return graph.ops[below(static_cast<int>(graph.ops.size()))].name; };
    const auto some_stage = [&] {
      return graph.stages[below(static_cast<int>(graph.stages.size()))].name;
    };
    if (below(2) == 0) drawn.keep_ops = {some_op()};
    if (below(2) == 0) drawn.drop_ops = {some_op()};
    if (below(4) == 0) drawn.keep_stages = {some_stage()};
    if (below(4) == 0) drawn.drop_stages = {some_stage()};
    return drawn;
  }

  /// Rising overheads, 0 among them at times.
  std::vector<double> overheads() {
    std::vector<double> drawn;
    for (int i = 0; i < 3; ++i) drawn.push_back(below(4) == 0 ? 0 : below(60) / 100.0);
    std::ranges::sort(drawn);
    return drawn;
  }

  /// Rising peaks, from below what can be reached up to more than is needed.
  std::vector<std::int64_t> peaks(std::int64_t plain_bytes) {
    std::vector<std::int64_t> drawn;
    for (int i = 0; i < 3; ++i) drawn.push_back(1 + plain_bytes * (20 + below(90)) / 100);
    std::ranges::sort(drawn);
    return drawn;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

  std::mt19937_64 random_;
  std::uint64_t seed_;
};

/// What is said of a plan is what the simulator says, and on small graphs the reference too.
void expect_predictions(const Graph& graph, const Plan& plan) {
  const Simulation result = simulate(graph, plan.keep, plan.sweeps);
  EXPECT_EQ(plan.predicted_peak_bytes, result.peak_bytes);
  EXPECT_EQ(plan.num_replayed_ops, result.num_replayed_ops);
  EXPECT_EQ(plan.predicted_plain_peak_bytes, simulate(graph, keep_all(graph)).peak_bytes);
  if (graph.step_seconds > 0) {
    EXPECT_NEAR(plan.predicted_overhead_seconds, result.replay_seconds / graph.step_seconds,
                kRounding);
  }
  if (graph.step_flops > 0) {
    EXPECT_NEAR(plan.predicted_overhead_flops, result.replay_flops / graph.step_flops, kRounding);
  }
  if (graph.ops.size() > 15) return;
  EXPECT_EQ(test::ReferenceExecutor(graph, plan.keep, plan.sweeps).run(), result);
}

/// It keeps nothing for nothing, and follows the selection.
void expect_kept_set(const Graph& graph, const Plan& plan, const Selection& selection) {
  EXPECT_EQ(only_wanted(graph, plan.keep), plan.keep);
  const std::vector<Constraint> constraints = select(graph, selection);
  for (std::size_t v = 0; v < constraints.size(); ++v) {
    if (constraints[v] == Constraint::open) continue;
    EXPECT_EQ(plan.keep[v] != 0, constraints[v] == Constraint::keep) << v;
  }
}

/// No plan lies below what another one has proven.
void expect_bounds(const std::vector<Plan>& plans) {
  for (const Plan& proof : plans) {
    for (const Plan& plan : plans) {
      if (overhead_of(plan) <= overhead_of(proof)) {
        EXPECT_GE(plan.predicted_peak_bytes, proof.proven_peak_bytes);
      }
      if (plan.predicted_peak_bytes <= proof.predicted_peak_bytes) {
        EXPECT_GE(overhead_of(plan), proof.proven_overhead - kRounding);
      }
    }
  }
}

struct Count {
  int num_plans = 0;
  int num_feasible = 0;
  int num_nested = 0;
  int num_hurt = 0;  ///< more bytes, and yet more overhead

  void add(const Plan& plan) {
    ++num_plans;
    num_feasible += plan.feasible ? 1 : 0;
    num_nested += plan.sweeps.empty() ? 0 : 1;
  }

  void print() const {
    std::cout << num_plans << " plans, " << num_feasible << " feasible, " << num_nested
              << " nested; more bytes hurt " << num_hurt << '\n';
  }
};

class Fuzz {
 public:
  explicit Fuzz(std::uint64_t seed) : draw_(seed), graph_(draw_.graph()), cost_(draw_.cost()) {
    selection_ = draw_.selection(graph_);
  }

  void run(Count& count) {
    if (!can_select()) return;
    plan_within_overheads();
    plan_within_peaks(count);
    for (const Plan& plan : plans_) {
      count.add(plan);
      expect_predictions(graph_, plan);
      expect_kept_set(graph_, plan, selection_);
    }
    expect_bounds(plans_);
  }

 private:
  /// A value may be both to be kept and dropped.
  bool can_select() {
    try {
      select(graph_, selection_);
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  }

  void plan_within_overheads() {
    std::int64_t last_peak_bytes = std::numeric_limits<std::int64_t>::max();
    for (const double overhead : draw_.overheads()) {
      const Plan plan =
          make_plan(graph_, {.max_overhead = overhead, .cost = cost_, .selection = selection_});
      EXPECT_TRUE(!plan.feasible || overhead_of(plan) <= overhead);
      EXPECT_TRUE(plan.feasible || selection_ != Selection{});
      if (plan.feasible) {
        EXPECT_LE(plan.predicted_peak_bytes, last_peak_bytes);
        last_peak_bytes = plan.predicted_peak_bytes;
      }
      plans_.push_back(plan);
    }
  }

  void plan_within_peaks(Count& count) {
    double last_overhead = std::numeric_limits<double>::infinity();
    const std::int64_t plain_bytes = simulate(graph_, keep_all(graph_)).peak_bytes;
    for (const std::int64_t peak_bytes : draw_.peaks(plain_bytes)) {
      const Plan plan =
          make_plan(graph_, {.max_peak_bytes = peak_bytes, .cost = cost_, .selection = selection_});
      EXPECT_EQ(plan.feasible, plan.predicted_peak_bytes <= peak_bytes);
      if (plan.feasible) {
        count.num_hurt += overhead_of(plan) > last_overhead + kRounding ? 1 : 0;
        last_overhead = overhead_of(plan);
      }
      plans_.push_back(plan);
    }
  }

  Draw draw_;
  Graph graph_;
  CostModel cost_;
  Selection selection_;
  std::vector<Plan> plans_;
};

TEST(Planner, KeepsItsPromisesOnRandomGraphs) {
  Count count;
  for (int seed = 0; seed < 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Fuzz(seed).run(count);
  }
  count.print();
  EXPECT_GE(count.num_feasible, 100);
  EXPECT_GE(count.num_nested, 5);
  EXPECT_LE(count.num_hurt, count.num_feasible / 50);  // 1 of 1744 plans of 500 such graphs
}

}  // namespace
}  // namespace gradrecomp::plan
