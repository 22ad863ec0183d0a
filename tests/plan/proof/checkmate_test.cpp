#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/simulate.h"
#include "support/plan/milp.h"
#include "support/plan/nested_brute_force.h"
#include "support/plan/random_chain.h"

namespace gradrecomp::plan {
namespace {

using test::Milp;
using test::MilpSolution;

constexpr double kRounding = 1e-5;  // the solver's, as a share of forward

/// The integer program of Jain et al., Checkmate, MLSys 2020: any op may run again at any stage,
/// and any value may be let go at any time.
///
/// A stage begins with a demand of backward; replays come first in it, in the order of the ops.
/// Costs are shares of forward. Differs from the paper in that forward runs once and first, that
/// backward is the event log, and that a value is freed by not being live after an op, for which
/// no variable of its own is needed.
/// For graphs whose ops make one value each, none in place.
class Checkmate {
 public:
  Checkmate(const Graph& graph, std::int64_t max_peak_bytes)
      : graph_(graph), limit_(static_cast<double>(max_peak_bytes)) {
    find_values();
    add_forward();
    for (std::size_t t = seal_ + 1; t < graph.events.size(); ++t) {
      if (graph.events[t].kind == EventKind::demand) add_stage(t);
      add_backward_event(t);
    }
  }

  Milp take() && { return std::move(milp_); }

 private:
  using Variables = std::vector<Milp::Variable>;  ///< per value

  /// A value that the program owns to the end is always there, like an external one.
  void find_values() {
    const std::size_t num_values = graph_.values.size();
    is_there_.assign(num_values, true);
    dead_.assign(num_values, false);
    used_.assign(num_values, false);
    for (const Event& event : graph_.events) {
      if (event.kind == EventKind::death) is_there_[event.id] = false;
    }
  }

  [[nodiscard]] double bytes(std::size_t v) const {
    return static_cast<double>(graph_.values[v].bytes);
  }

  Variables add_values() {
    Variables made;
    for (std::size_t v = 0; v < is_there_.size(); ++v) {
      made.push_back(is_there_[v] ? -1 : milp_.add_continuous());
    }
    return made;
  }

  /// What lives under every plan, `above` and the live ones of `values` fit into the limit.
  void add_memory_row(const Variables& values, double above, Milp::Terms terms = {}) {
    constexpr double kScale = 100;
    double base = base_ + above;
    for (std::size_t v = 0; v < is_there_.size(); ++v) {
      if (is_there_[v] || !dead_[v]) continue;
      if (used_[v]) base += bytes(v);
      if (!used_[v]) terms[values[v]] += bytes(v);
    }
    for (auto& [variable, coefficient] : terms) coefficient *= kScale / limit_;
    milp_.add_row(std::move(terms), kScale * (limit_ - base) / limit_);
  }

  /// Forward keeps some values; the program owns the others until they die.
  void add_forward() {
    stored_ = add_values();
    for (std::size_t t = 0; graph_.events[t].kind != EventKind::seal; ++t) {
      const Event& event = graph_.events[t];
      seal_ = t + 1;
      double above = event.kind == EventKind::outside ? event.peak_bytes : 0;
      if (event.kind == EventKind::run_op) above = graph_.ops[event.id].transient_bytes;
      add_memory_row(stored_, above);
      if (event.kind == EventKind::run_op) base_ += bytes(graph_.ops[event.id].outputs.front());
      if (event.kind == EventKind::outside) base_ += event.net_bytes;
      if (event.kind != EventKind::death) continue;
      base_ -= bytes(event.id);
      dead_[event.id] = true;
    }
    add_memory_row(stored_, 0);
  }

  /// Replays before the demand at event `t`, and what is stored from then on.
  void add_stage(std::size_t t) {
    const double forward_seconds = graph_.step_seconds / 3;
    Variables live = stored_;
    for (const Op& op : graph_.ops) {
      const Milp::Variable runs = milp_.add_binary(op.replay_seconds / forward_seconds);
      add_memory_row(live, 0, {{runs, static_cast<double>(op.transient_bytes)}});
      for (const Index u : op.inputs) {
        if (!is_there_[u]) milp_.add_row({{runs, 1}, {live[u], -1}}, 0);
      }
      live = live_after(live, op.outputs.front(), runs);
      add_memory_row(live, 0);
    }
    const Index target = graph_.events[t].id;
    if (!is_there_[target]) milp_.add_row({{live[target], -1}}, -1);
    used_[target] = true;
    stored_ = live_after(live, -1, -1);
  }

  /// A value is live after an op only if it was before or the op has made it; in use, always.
  Variables live_after(const Variables& before, Index made, Milp::Variable runs) {
    const Variables after = add_values();
    for (std::size_t v = 0; v < after.size(); ++v) {
      if (is_there_[v]) continue;
      Milp::Terms terms{{after[v], 1}, {before[v], -1}};
      if (static_cast<Index>(v) == made) terms[runs] = -1;
      milp_.add_row(std::move(terms), 0);
      if (used_[v]) milp_.add_row({{after[v], -1}}, -1);
    }
    return after;
  }

  void add_backward_event(std::size_t t) {
    const Event& event = graph_.events[t];
    if (event.kind == EventKind::outside) {
      add_memory_row(stored_, event.peak_bytes);
      base_ += event.net_bytes;
    }
    add_memory_row(stored_, 0);
    if (event.kind == EventKind::release) let_go(event.id);
  }

  /// From here on a value may be live no more.
  void let_go(Index v) {
    used_[v] = false;
    if (is_there_[v]) return;
    const Milp::Variable before = stored_[v];
    stored_[v] = milp_.add_continuous();
    milp_.add_row({{stored_[v], 1}, {before, -1}}, 0);
  }

  const Graph& graph_;
  double limit_;
  Milp milp_;
  std::vector<bool> is_there_;
  std::vector<bool> dead_;
  std::vector<bool> used_;  ///< between a demand and a release
  Variables stored_;        ///< live when no replay runs
  double base_ = 0;
  std::size_t seal_ = 0;
};

struct Case {
  Graph graph;
  std::int64_t max_peak_bytes = 0;
};

/// A bound some way up from the least peak that the planner finds to the plain one.
Case case_of(Graph graph, int percent) {
  const std::int64_t most = simulate(graph, keep_all(graph)).peak_bytes;
  const std::int64_t least = make_plan(graph, {.max_peak_bytes = 1}).predicted_peak_bytes;
  return {std::move(graph), least + percent * (most - least) / 100};
}

/// Plans against schedules that may do anything; shares of forward.
struct Excess {
  int num_plans = 0;
  int num_above = 0;
  int num_open = 0;  ///< the solver ran out of time: excess is over what it proved
  double sum = 0;
  double worst = 0;

  void add(const Case& it, const MilpSolution& best) {
    const Plan plan = make_plan(it.graph, {.max_peak_bytes = it.max_peak_bytes});
    ASSERT_TRUE(plan.feasible);
    const Simulation result = simulate(it.graph, plan.keep, plan.sweeps);
    const double excess = 3 * result.replay_seconds / it.graph.step_seconds - best.proven;
    EXPECT_GE(excess, -kRounding);
    ++num_plans;
    num_above += excess > kRounding ? 1 : 0;
    sum += std::max(0.0, excess);
    worst = std::max(worst, excess);
    num_open += best.cost > best.proven + kRounding ? 1 : 0;
  }

  [[nodiscard]] double mean() const { return sum / num_plans; }

  void print() const {
    std::cout << num_above << " of " << num_plans << " plans above Checkmate, by " << 100 * mean()
              << "% of forward on average, " << 100 * worst << "% at worst; " << num_open
              << " not solved to the end\n";
  }
};

Excess excess_of(const std::vector<Graph>& graphs, int percent) {
  std::vector<Case> cases;
  for (const Graph& graph : graphs) cases.push_back(case_of(graph, percent));
  std::vector<Milp> programs;
  for (const Case& it : cases) programs.push_back(Checkmate(it.graph, it.max_peak_bytes).take());
  const std::vector<MilpSolution> solutions = solve(programs, 3);
  Excess excess;
  for (std::size_t i = 0; i < cases.size(); ++i) excess.add(cases[i], solutions[i]);
  std::cout << percent << "% of the way up from the least peak, ";
  excess.print();
  return excess;
}

class PlansAgainstCheckmate : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_milp_solver()) {
      GTEST_SKIP() << GRADRECOMP_PYTHON " has no highspy; scripts/setup installs it.";
    }
  }
};

/// Ops that make one value each, none in place.
std::vector<Graph> draw(int num_blocks, int most_ops, int num_graphs) {
  std::vector<Graph> graphs;
  for (int seed = 0; seed < num_graphs; ++seed) {
    const test::RandomChainOptions options{.num_blocks = num_blocks,
                                           .least_ops = most_ops / 2,
                                           .most_ops = most_ops,
                                           .in_place_chance = 0,
                                           .second_chance = 0};
    graphs.push_back(test::RandomChain(options, seed).draw());
  }
  return graphs;
}

TEST_F(PlansAgainstCheckmate, OfChainsOfBlocksAreNearTheLeast) {
  const std::vector<Graph> graphs = draw(6, 2, 12);
  EXPECT_LE(excess_of(graphs, 0).mean(), 0.3);
  EXPECT_LE(excess_of(graphs, 20).mean(), 0.01);
  EXPECT_LE(excess_of(graphs, 50).mean(), 0.005);
}

TEST_F(PlansAgainstCheckmate, OfGraphsWithoutCutsAreNearTheLeast) {
  const std::vector<Graph> graphs = draw(1, 12, 12);
  EXPECT_LE(excess_of(graphs, 0).mean(), 0.06);
  EXPECT_LE(excess_of(graphs, 20).mean(), 0.04);
  EXPECT_LE(excess_of(graphs, 50).mean(), 0.02);
}

// The two oracles agree: a schedule that leaves values behind in sweeps needs no more replays than
// one that may do anything.
TEST_F(PlansAgainstCheckmate, NestedSchedulesOfSmallChainsAreAsGood) {
  std::vector<Milp> programs;
  std::vector<double> least;
  for (const Graph& graph : draw(3, 2, 12)) {
    const test::NestedBruteForce all(graph);
    for (const auto& [peak_bytes, seconds] : all.front()) {
      programs.push_back(Checkmate(graph, peak_bytes).take());
      least.push_back(3 * seconds / graph.step_seconds);
    }
  }
  const std::vector<MilpSolution> solutions = solve(programs, 3);
  for (std::size_t i = 0; i < least.size(); ++i) {
    EXPECT_NEAR(least[i], solutions[i].cost, kRounding);
  }
}

}  // namespace
}  // namespace gradrecomp::plan
