#include "offload_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "gradrecomp/plan/predict.h"
#include "gradrecomp/plan/simulate.h"
#include "offloaded_graph.h"
#include "plan/simulator/replay_cost.h"
#include "plan_choice.h"
#include "transfers.h"

// Note [ Offload ]
// ~~~~~~~~~~~~~~~~
// What a plan keeps is worth sending away, as it is dear to replay; most of all what was made
// first, as it has the most time to go and to come back. So candidates are the first kept values
// that the link has time for, or part of them, or more for some seconds of stall. Once these are
// chosen, what they take of the device, and when, is known and no longer depends on the plan: to
// the planner they are free, and memory outside all values comes and goes in their place
// (offloaded_graph.h). It plans the rest with the budget less the stall. Values are then needed at
// different moments from before, so transfers are laid out anew for the plan found, and the
// simulator has the last word on its peak. What the new plan keeps can be sent away in turn.

namespace gradrecomp::plan {
namespace {

constexpr int kNumRounds = 2;
constexpr std::int64_t kLeastShare = 4096;  // of the plain peak, below which values stay

/// One attempt: those of the candidates that a stall allows, or the first part of them.
struct Attempt {
  double stall = 0;  ///< ratio to the plain step
  double part = 1;
};

class OffloadSearch {
 public:
  OffloadSearch(const Graph& graph, const Request& request, const Plan& base, const PlanMaker& make)
      : graph_(graph),
        request_(request),
        make_(make),
        best_(base),
        constraints_(select(graph, request.selection)),
        replay_cost_(graph, request.cost),
        simulator_(graph),
        transfers_(graph, *request.host_link),
        places_(graph) {}

  Plan run() {
    for (int round = 0; round < kNumRounds; ++round) {
      const auto needs = candidates(best_);
      std::vector<Need> fit;
      std::vector<Need> last;
      double stall = -1;  // that `fit` fits
      for (const Attempt& attempt : attempts()) {
        if (attempt.stall != stall) fit = fitting(needs, stall = attempt.stall);
        auto chosen = fit;
        chosen.resize(static_cast<std::size_t>(std::ceil(attempt.part * chosen.size())));
        if (chosen.empty() || same_values(chosen, last)) continue;
        try_values(chosen);
        last = std::move(chosen);
      }
    }
    return best_;
  }

 private:
  static bool same_values(const std::vector<Need>& a, const std::vector<Need>& b) {
    return std::ranges::equal(a, b, {}, &Need::value, &Need::value);
  }

  [[nodiscard]] std::vector<Attempt> attempts() const {
    std::vector<Attempt> attempts{{.part = 0.25}, {.part = 0.5}, {.part = 0.75}, {.part = 1}};
    if (request_.cost == CostModel::flops) return attempts;
    const double most = request_.max_overhead.value_or(1);
    for (const double share : {0.03, 0.1, 0.3, 0.6, 1.0}) {
      if (most > 0) attempts.push_back({.stall = share * most});
    }
    return attempts;
  }

  /// Goes through `needs` in order and takes each one that, with those taken before it, stalls the
  /// step no longer than `stall`.
  [[nodiscard]] std::vector<Need> fitting(const std::vector<Need>& needs, double stall) const {
    std::vector<Need> chosen;
    for (const Need& need : needs) {
      chosen.push_back(need);
      const double seconds = transfers_.schedule(chosen).stall_seconds;
      if (replay_cost_.seconds_ratio(seconds) > stall) chosen.pop_back();
    }
    return chosen;
  }

  /// What `plan` keeps and might send away, in the order of its making.
  std::vector<Need> candidates(const Plan& plan) {
    std::vector<Index> values;
    const std::int64_t least_bytes = plan.predicted_plain_peak_bytes / kLeastShare;
    for (std::size_t v = 0; v < plan.keep.size(); ++v) {
      const bool is_kept = plan.keep[v] != 0 && !graph_.values[v].must_keep;
      if (is_kept && graph_.values[v].bytes > least_bytes && places_.can_leave(v)) {
        values.push_back(static_cast<Index>(v));
      }
    }
    auto needs = needs_of(plan, values);
    std::ranges::stable_sort(needs, {},
                             [&](const Need& n) { return graph_.values[n.value].producer; });
    return needs;
  }

  /// For those of `values` that backward needs under `plan`: when it first does.
  std::vector<Need> needs_of(const Plan& plan, const std::vector<Index>& values) {
    std::vector<Offload> offloads;
    for (const Index v : values) {
      offloads.push_back({.value = v, .leaves_after = graph_.values[v].producer});
    }
    Timeline timeline;
    simulator_.run(plan.keep, plan.sweeps, offloads, timeline);
    std::vector<Need> needs;
    for (std::size_t i = 0; i < timeline.returned_values.size(); ++i) {
      const Index v = timeline.returned_values[i];
      // A later pass may need it once more.
      if (std::ranges::count(needs, v, &Need::value) > 0) continue;
      needs.push_back({v, timeline.return_events[i]});
    }
    return needs;
  }

  /// Plans the rest around them and takes the plan if it is better.
  void try_values(const std::vector<Need>& needs) {
    const TransferSchedule schedule = transfers_.schedule(needs);
    const Request request = less(schedule.stall_seconds);
    auto constraints = constraints_;
    std::vector<Index> values;
    for (const Offload& offload : schedule.offloads) {
      constraints[offload.value] = Constraint::keep;
      values.push_back(offload.value);
    }
    Plan plan = make_(places_.graph_without(schedule.offloads, needs), request, constraints);
    for (const Index v : values) plan.keep[v] = 1;
    plan = send_away(std::move(plan), values);
    if (answers_better(plan, best_, request_)) best_ = std::move(plan);
  }

  /// The request with what a stall leaves of its budget.
  [[nodiscard]] Request less(double stall_seconds) const {
    Request request = request_;
    request.host_link.reset();
    request.effort = 0;  // as many are tried
    if (request.max_overhead) {
      const double left = *request.max_overhead - replay_cost_.seconds_ratio(stall_seconds);
      request.max_overhead = std::max(0.0, left);
    }
    return request;
  }

  /// `plan` for the whole graph, with what becomes of it there.
  Plan send_away(Plan plan, const std::vector<Index>& values) {
    const auto needs = needs_of(plan, values);
    for (const Index v : values) plan.keep[v] = 0;  // what nothing needs is not kept either
    for (const Need& need : needs) plan.keep[need.value] = 1;
    TransferSchedule schedule = transfers_.schedule(needs);
    plan.offloads = std::move(schedule.offloads);
    plan.signature = graph_.signature;
    plan.predicted_stall = replay_cost_.seconds_ratio(schedule.stall_seconds);
    plan = predict(graph_, std::move(plan));
    plan.withdraw_proofs();
    plan.feasible = meets(plan, request_);
    return plan;
  }

  const Graph& graph_;
  const Request& request_;
  const PlanMaker& make_;
  Plan best_;
  std::vector<Constraint> constraints_;
  ReplayCost replay_cost_;
  Simulator simulator_;
  Transfers transfers_;
  OffloadedGraph places_;
};

}  // namespace

Plan with_offloads(const Graph& graph, const Request& request, const Plan& base,
                   const PlanMaker& make) {
  return OffloadSearch(graph, request, base, make).run();
}

}  // namespace gradrecomp::plan
