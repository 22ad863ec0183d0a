#include "support/plan/milp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <limits>
#include <vector>

#include "gradrecomp/plan/make_plan.h"
#include "plan/proof/lower_bound.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_chain.h"
#include "support/plan/random_graph.h"
#include "support/plan/skip_graphs.h"

namespace gradrecomp::plan {
namespace {

using test::Milp;
using test::MilpSolution;

constexpr double kRounding = 1e-5;  // the solver's, as a share of the step

/// The set of plans that Note [ Lower bounds ] relaxes to, as an integer program: least overhead
/// with the load of every event within a peak.
class Relaxation {
 public:
  Relaxation(const Graph& graph, const ReplayCost& replay_cost)
      : graph_(graph), lives_(graph.values.size()), readers_(graph.values.size()) {
    for (const Op& op : graph.ops) {
      for (const Index u : op.inputs) readers_[u].push_back(&op - graph.ops.data());
      replayed_.push_back(milp_.add_binary(replay_cost.overhead(op)));
    }
    find_lives();
    find_unsaved_releases();
    find_base();
    loads_.resize(graph.events.size());
    for (std::size_t v = 0; v < graph.values.size(); ++v) add_value(static_cast<Index>(v));
  }

  /// To be used once.
  Milp within(std::int64_t max_peak_bytes) && {
    constexpr double kScale = 1000;
    const auto limit = static_cast<double>(max_peak_bytes);
    for (std::size_t t = 0; t < loads_.size(); ++t) {
      if (is_covered(t)) continue;
      for (auto& [variable, bytes] : loads_[t]) bytes *= kScale / limit;
      milp_.add_row(std::move(loads_[t]), kScale * (limit - base_[t]) / limit);
    }
    return std::move(milp_);
  }

 private:
  struct Life {
    Index death = -1;
    Index demand = -1;  ///< the first after that
    Index release = -1;
  };

  void find_lives() {
    for (std::size_t i = 0; i < graph_.events.size(); ++i) {
      const Event& event = graph_.events[i];
      const auto t = static_cast<Index>(i);
      if (event.kind == EventKind::death) lives_[event.id] = {t, -1, -1};
      if (event.kind == EventKind::release) lives_[event.id].release = t;
      const bool is_demand = event.kind == EventKind::demand && lives_[event.id].death >= 0;
      if (is_demand && lives_[event.id].demand < 0) lives_[event.id].demand = t;
    }
  }

  /// A value that was not saved may go with the first release of all that its readers are replayed
  /// for.
  void find_unsaved_releases() {
    for (auto op = graph_.ops.rbegin(); op != graph_.ops.rend(); ++op) {
      for (const Index v : op->outputs) {
        if (graph_.values[v].saved) continue;
        Index release = std::numeric_limits<Index>::max();
        for (const Index reader : readers_[v]) {
          for (const Index w : graph_.ops[reader].outputs) {
            release = std::min(release, lives_[w].release);
          }
        }
        lives_[v].release = readers_[v].empty() ? -1 : release;
      }
    }
  }

  /// Per event, the highest bytes of what lives under every plan.
  void find_base() {
    std::vector<bool> owned(graph_.values.size(), false);
    std::int64_t live = 0;
    for (const Event& event : graph_.events) {
      std::int64_t peak = live;
      if (event.kind == EventKind::run_op) {
        const Op& op = graph_.ops[event.id];
        peak += op.transient_bytes;
        for (const Index v : op.outputs) {
          const Index before = graph_.values[v].overwrites;
          if (before >= 0) owned[before] = false;
          if (before < 0) live += graph_.values[v].bytes;
          owned[v] = true;
        }
      }
      if (event.kind == EventKind::outside) {
        peak += event.peak_bytes;
        live += event.net_bytes;
      }
      base_.push_back(static_cast<double>(std::max(peak, live)));
      if (event.kind != EventKind::death || !owned[event.id]) continue;
      owned[event.id] = false;
      live -= graph_.values[event.id].bytes;
    }
  }

  void add_load(Index v, Index from, Milp::Variable variable, double sign) {
    if (from < 0) return;
    for (Index t = from + 1; t <= lives_[v].release; ++t) {
      loads_[t][variable] += sign * static_cast<double>(graph_.values[v].bytes);
    }
  }
  void add_base(Index v, Index from) {
    if (from < 0) return;
    for (Index t = from + 1; t <= lives_[v].release; ++t) {
      base_[t] += static_cast<double>(graph_.values[v].bytes);
    }
  }

  void add_value(Index v) {
    const Value& x = graph_.values[v];
    const Life& life = lives_[v];
    if (x.producer < 0 || x.snapshot) return;
    if (x.overwritten_by >= 0) return x.must_keep ? void() : require_maker(v);
    if (x.saved && life.demand < 0) return;
    if (x.must_keep) return x.saved ? add_base(v, life.death) : void();
    if (!x.saved) return add_unsaved(v);
    // Replayed: from its demand on; kept: from its death on.
    add_base(v, life.death);
    add_load(v, life.death, replayed_[x.producer], -1);
    add_load(v, life.demand, replayed_[x.producer], 1);
  }

  void require_maker(Index v) {
    const Index maker = graph_.values[v].producer;
    for (const Index op : readers_[v]) {
      if (op != maker) milp_.add_row({{replayed_[op], 1}, {replayed_[maker], -1}}, 0);
    }
  }

  /// Kept where a reader is replayed and the maker is not.
  void add_unsaved(Index v) {
    if (readers_[v].empty()) return;
    const Milp::Variable kept = milp_.add_continuous();
    for (const Index op : readers_[v]) {
      milp_.add_row({{replayed_[op], 1}, {replayed_[graph_.values[v].producer], -1}, {kept, -1}},
                    0);
    }
    add_load(v, lives_[v].death, kept, 1);
  }

  /// The event before or after has the same load and a higher base.
  [[nodiscard]] bool is_covered(std::size_t t) const {
    const auto covers = [&](std::size_t other) {
      return loads_[other] == loads_[t] && base_[other] > base_[t];
    };
    return (t > 0 && covers(t - 1)) || (t + 1 < loads_.size() && covers(t + 1));
  }

  const Graph& graph_;
  Milp milp_;
  std::vector<Milp::Variable> replayed_;  ///< per op
  std::vector<Life> lives_;
  std::vector<std::vector<Index>> readers_;
  std::vector<double> base_;        ///< per event
  std::vector<Milp::Terms> loads_;  ///< per event
};

double overhead_of(const Plan& plan) {
  return plan.cost == CostModel::seconds ? plan.predicted_overhead_seconds
                                         : plan.predicted_overhead_flops;
}

/// Distances on the way from what is proven to what plans reach, as shares of forward.
struct Gaps {
  double plan = 0;   ///< of plans above the program's optimum
  double bound = 0;  ///< of proven overheads below it
  int num_plans = 0;
  int num_optimal = 0;

  void add(const Plan& plan_made, const MilpSolution& solution) {
    constexpr double kForward = 3;  // a step is three times a forward pass
    const double overhead = overhead_of(plan_made);
    EXPECT_GE(overhead, solution.proven - kRounding);
    EXPECT_LE(plan_made.proven_overhead, solution.cost + kRounding);
    plan += kForward * std::max(0.0, overhead - solution.proven);
    bound += kForward * std::max(0.0, solution.cost - plan_made.proven_overhead);
    num_optimal += overhead < solution.proven + kRounding ? 1 : 0;
    ++num_plans;
  }

  [[nodiscard]] double mean_plan() const { return plan / num_plans; }

  void print(const char* what) const {
    std::cout << what << ": " << num_optimal << " of " << num_plans
              << " plans reach the optimum of the relaxation; they lie " << 100 * mean_plan()
              << "% of forward above it on average, the bound " << 100 * bound / num_plans
              << "% below\n";
  }
};

struct Question {
  CostModel cost = CostModel::flops;
  std::vector<double> overheads = {0.01, 0.03, 0.06, 0.1, 0.2};
};

/// Plans without a search, which may end at any peak, against the least overhead that the
/// relaxation allows at their peaks. A search gives no higher one.
Gaps compare(const std::vector<Graph>& graphs, const Question& question) {
  std::vector<Plan> plans;
  std::vector<Milp> programs;
  for (const Graph& graph : graphs) {
    const ReplayCost replay_cost(graph, question.cost);
    for (const double overhead : question.overheads) {
      Request request{.max_overhead = overhead, .cost = question.cost};
      const Plan searched = make_plan(graph, request);
      request.effort = 0;
      plans.push_back(make_plan(graph, request));
      EXPECT_LE(searched.predicted_peak_bytes, plans.back().predicted_peak_bytes);
      programs.push_back(Relaxation(graph, replay_cost).within(plans.back().predicted_peak_bytes));
    }
  }
  const std::vector<MilpSolution> solutions = solve(programs, 4);
  Gaps gaps;
  for (std::size_t i = 0; i < plans.size(); ++i) gaps.add(plans[i], solutions[i]);
  return gaps;
}

class PlansAgainstMilp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_milp_solver()) {
      GTEST_SKIP() << GRADRECOMP_PYTHON " has no highspy; scripts/setup installs it.";
    }
  }
};

TEST_F(PlansAgainstMilp, OfATransformerAreOptimal) {
  const Gaps gaps = compare({test::bert_graph(3, 1, 64)}, {});
  gaps.print("BERT, 3 layers");
  EXPECT_EQ(gaps.num_optimal, gaps.num_plans);
}

TEST_F(PlansAgainstMilp, OfAResNetAreNearTheOptimum) {
  const Gaps gaps = compare({test::resnet_graph({1, 1, 1, 1}, 1)}, {});
  gaps.print("ResNet, 4 blocks");
  EXPECT_LE(gaps.mean_plan(), 0.12);
}

TEST_F(PlansAgainstMilp, OfNetworksWithSkipsAreNearTheOptimum) {
  const Gaps unet = compare({test::unet_graph(2, 1)}, {});
  unet.print("U-Net, 2 levels");
  EXPECT_LE(unet.mean_plan(), 0.08);
  const Gaps densenet = compare({test::densenet_graph({3, 3}, 1)}, {});
  densenet.print("DenseNet, 6 layers");
  EXPECT_LE(densenet.mean_plan(), 0.12);
}

TEST_F(PlansAgainstMilp, OfRandomGraphsAreNearTheOptimum) {
  for (const CostModel cost : {CostModel::seconds, CostModel::flops}) {
    std::vector<Graph> graphs;
    std::vector<Graph> chains;
    for (int seed = 0; seed < 10; ++seed) {
      graphs.push_back(test::RandomGraph({.num_ops = 12}, seed).draw());
      chains.push_back(test::RandomChain({}, seed).draw());
    }
    const Gaps of_graphs = compare(graphs, {cost, {0.02, 0.06, 0.15}});
    of_graphs.print("random graphs");
    EXPECT_LE(of_graphs.mean_plan(), 0.04);
    const Gaps of_chains = compare(chains, {cost, {0.02, 0.06, 0.15}});
    of_chains.print("random chains");
    EXPECT_LE(of_chains.mean_plan(), 0.05);
  }
}

}  // namespace
}  // namespace gradrecomp::plan
