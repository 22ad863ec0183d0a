#include "rounding_search.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "gradrecomp/plan/predict.h"
#include "plan/offload/plan_choice.h"
#include "plan/simulator/replay_cost.h"
#include "roundable_graph.h"

namespace gradrecomp::plan {
namespace {

/// What of the budget the planner is given, as what it promises for the graph with copies differs a
/// little from what the step then takes.
constexpr std::array kShares{1.0, 0.98, 0.94, 0.85};

Request share_of(const Request& request, double share) {
  Request less = request;
  less.bytes_rounded_per_second.reset();
  if (less.max_overhead) *less.max_overhead *= share;
  if (less.max_peak_bytes) {
    const double bytes = static_cast<double>(*less.max_peak_bytes) * share;
    less.max_peak_bytes = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes));
  }
  return less;
}

}  // namespace

Plan with_roundings(const Graph& graph, const Request& request, const Plan& base,
                    const PlanMaker& make) {
  const double bytes_per_second = *request.bytes_rounded_per_second;
  const RoundableGraph roundable(graph, bytes_per_second);
  const auto constraints = roundable.constraints(select(graph, request.selection));
  const ReplayCost replay_cost(graph, request.cost);
  Plan best = base;
  for (const double share : kShares) {
    Plan plan = make(roundable.graph(), share_of(request, share), constraints);
    plan = predict(graph, roundable.plan_of_step(std::move(plan)));
    plan.predicted_rounding =
        replay_cost.seconds_ratio(static_cast<double>(plan.rounded_bytes) / bytes_per_second);
    plan.withdraw_proofs();
    plan.feasible = meets(plan, request);
    const bool is_done = plan.feasible;
    if (answers_better(plan, best, request)) best = std::move(plan);
    if (is_done) break;
  }
  return best;
}

}  // namespace gradrecomp::plan
