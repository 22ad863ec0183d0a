#include "plan/proof/line_fit.h"

#include <gtest/gtest.h>

#include "gradrecomp/plan/make_plan.h"
#include "plan/bounds/cost_units.h"
#include "support/plan/model_graphs.h"
#include "support/plan/recorded_graphs.h"

namespace gradrecomp::plan {
namespace {

/// What a fit proves of a plan that no search improves.
struct Fit {
  explicit Fit(const Graph& graph, double max_overhead)
      : plan(make_plan(graph, {.max_overhead = max_overhead, .effort = 0})) {
    const ReplayCost replay_cost(graph, plan.cost);
    const auto units = units_around(plan.predicted_overhead(plan.cost));
    OpProgram program(graph, replay_cost, plan.peak_proof);
    LineFit fit(program, plan.peak_proof, plan.predicted_plain_peak_bytes);
    constexpr std::int64_t kWork = 40'000'000;
    fitted = fit.run({plan.proven_peak_bytes, plan.predicted_peak_bytes, units}, kWork);
    program.follow(fitted.line);
    is_seen_again =
        !program.find_priced({fitted.peak_bytes - 1, units}, {kWork, kMostVisits}).exists;
  }

  Plan plan;
  LineFit::Fitted fitted;
  bool is_seen_again = false;  ///< by the line alone
};

TEST(LineFit, ProvesMoreThanTheLineThatItBeginsWith) {
  const Fit fit(test::recorded_graph("fno"), 0.2);
  const auto part = fit.plan.predicted_plain_peak_bytes / 200;
  EXPECT_GT(fit.fitted.peak_bytes, fit.plan.proven_peak_bytes + part);
  EXPECT_TRUE(fit.is_seen_again);
}

TEST(LineFit, ProvesNoMoreThanPlansReach) {
  const std::vector<Graph> graphs = {
      test::recorded_graph("fno"), test::resnet_graph({2, 2, 2, 2}, 2), test::bert_graph(3, 2, 64)};
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    SCOPED_TRACE(g);
    for (const double max_overhead : {0.05, 0.2}) {
      const Fit fit(graphs[g], max_overhead);
      EXPECT_LE(fit.fitted.peak_bytes, fit.plan.predicted_peak_bytes);
      EXPECT_GE(fit.fitted.peak_bytes, fit.plan.proven_peak_bytes);
    }
  }
}

}  // namespace
}  // namespace gradrecomp::plan
