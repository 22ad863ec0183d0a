#include "gradrecomp/plan/make_plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "answer_book.h"
#include "budget_checks.h"
#include "device_search.h"
#include "gradrecomp/plan/simulate.h"
#include "nominal_seconds.h"
#include "plan/error.h"
#include "plan/graph/choosable_values.h"
#include "plan/offload/offload_search.h"
#include "plan/proof/lower_bound.h"
#include "plan/proof/prover.h"
#include "plan/rounding/rounding_search.h"
#include "plan/simulator/device_peaks.h"
#include "single_replays.h"

namespace gradrecomp::plan {
namespace {

constexpr int kNumCuts = 30;       // for each overhead that a bound is wanted at
constexpr int kNumCutsAnew = 120;  // for that of a plan
constexpr int kNumTrials = 100;

constexpr std::array kBoundOverheads{0.01, 0.03, 0.06, 0.1, 0.16, 0.25, 0.35};

class PlanningTimer {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void check_rounding(const Request& request) {
  const double speed = *request.bytes_rounded_per_second;
  if (!(speed > 0) || !std::isfinite(speed)) {
    raise({"Request", "bytes_rounded_per_second", spelled(speed), "finite and above 0",
           "Pass a measured speed, or none"});
  }
  if (!request.host_link) return;
  throw std::invalid_argument(
      "Request: host_link and bytes_rounded_per_second are both set, but only one may be. Offload "
      "to keep plain's bits.");
}

void check_budgets(const Request& request) {
  const int num_budgets = (request.max_overhead ? 1 : 0) + (request.max_peak_bytes ? 1 : 0);
  if (num_budgets == 2) {
    throw std::invalid_argument(
        "Request: max_overhead and max_peak_bytes are both set, but only one may be. Read the "
        "other from the plan.");
  }
  if (request.bytes_rounded_per_second) check_rounding(request);
  if (request.max_overhead) check_max_overhead("Request", *request.max_overhead);
  if (request.max_peak_bytes) check_max_peak_bytes("Request", *request.max_peak_bytes);
}

void check_host_link(const HostLink& link) {
  const auto check = [](const char* name, double bytes_per_second) {
    if (bytes_per_second > 0) return;
    raise({"Request", name, spelled(bytes_per_second), "above 0",
           "Pass measured bytes per second, or no host_link"});
  };
  check("host_link.store_bytes_per_second", link.store_bytes_per_second);
  check("host_link.fetch_bytes_per_second", link.fetch_bytes_per_second);
}

bool has_budget(const Request& request) { return request.max_overhead || request.max_peak_bytes; }

void check(const Request& request) {
  check_effort("Request", request.effort);
  check_budgets(request);
  if (!request.policy && !has_budget(request)) {
    throw std::invalid_argument(
        "Request: none of max_overhead, max_peak_bytes and policy is set, but one must be. "
        "max_overhead = 0.05 is a good start.");
  }
  if (request.policy && has_budget(request)) {
    raise({"Request", "policy", '"' + request.policy->name() + '"', "left out beside a budget",
           "Set a budget or a fixed policy"});
  }
}

/// The name that the plan for `request` gives its maker.
std::string maker_of(const Request& request) {
  if (request.policy) return request.policy->name();
  return request.max_peak_bytes ? "max_peak_bytes" : "max_overhead";
}

/// Turns candidates into plans.
class Describer {
 public:
  Describer(const Graph& graph, const ReplayCost& replay_cost, const LowerBound& bound)
      : graph_(graph), replay_cost_(replay_cost), prover_(graph, replay_cost, bound) {
    plain_peak_bytes_ = simulate(graph, keep_all(graph)).peak_bytes;
  }

  [[nodiscard]] Plan plan(const Candidate& chosen, const std::string& maker) {
    const Simulation& result = chosen.result;
    Plan plan;
    plan.policy = maker;
    plan.keep = chosen.keep;
    plan.sweeps = chosen.sweeps;
    plan.signature = graph_.signature;
    plan.cost = replay_cost_.model();
    plan.predicted_peak_bytes = result.peak_bytes;
    plan.predicted_plain_peak_bytes = plain_peak_bytes_;
    plan.predicted_overhead_seconds = replay_cost_.seconds_ratio(result.replay_seconds);
    plan.predicted_overhead_flops = replay_cost_.flops_ratio(result.replay_flops);
    plan.num_replayed_ops = result.num_replayed_ops;
    prover_.prove(plan);
    return plan;
  }

 private:
  const Graph& graph_;
  const ReplayCost& replay_cost_;
  Prover prover_;
  std::int64_t plain_peak_bytes_ = 0;
};

/// Chooses for one device.
class Planner {
 public:
  Planner(const Graph& graph, const Request& request, std::vector<Constraint> constraints,
          Replays replays = Replays::many)
      : graph_(graph),
        request_(request),
        replay_cost_(graph, request.cost),
        constraints_(std::move(constraints)),
        replays_(replays) {}

  Answer choose() {
    if (request_.policy) return {evaluated(request_.policy->plan(graph_))};
    if (replays_ == Replays::once) return choose_once();
    AnswerBook book(graph_, replay_cost_, constraints_, request_.effort);
    Answer answer = request_.max_overhead ? book.within_overhead(*request_.max_overhead)
                                          : book.within_peak(*request_.max_peak_bytes);
    bound_ = std::move(book.bound());
    return answer;
  }

  /// Simulates a plan that was made elsewhere, constraints enforced.
  [[nodiscard]] Candidate evaluated(FixedPlan made) const {
    LocalSearch local_search(graph_, replay_cost_, constraints_);
    return local_search.evaluate(std::move(made.keep), std::move(made.sweeps));
  }

  [[nodiscard]] Plan described(const Answer& answer) {
    if (!bound_) bound_.emplace(graph_, replay_cost_);
    bound_->tighten(answer.candidate.overhead, kNumCuts);
    bound_->tighten_anew(answer.candidate.overhead, kNumCutsAnew);
    Plan plan = Describer(graph_, replay_cost_, *bound_).plan(answer.candidate, maker_of(request_));
    plan.feasible = answer.feasible;
    return plan;
  }

 private:
  Answer choose_once() {
    SingleReplays wanted;
    if (request_.max_overhead) wanted.max_overhead = *request_.max_overhead;
    if (request_.max_peak_bytes) wanted.max_peak_bytes = *request_.max_peak_bytes;
    const Front front = find_single_replays(graph_, replay_cost_, constraints_, wanted);
    std::size_t best = request_.max_overhead ? front.last_within(wanted.max_overhead)
                                             : front.first_within(wanted.max_peak_bytes);
    const bool feasible = best != Front::kNone;
    if (!feasible) best = request_.max_overhead ? 0 : front.candidates().size() - 1;
    LocalSearch local_search(graph_, replay_cost_, constraints_);
    return {local_search.spare_replays(front.candidates()[best], {}, kNumTrials), feasible};
  }

  const Graph& graph_;
  const Request& request_;
  ReplayCost replay_cost_;
  std::vector<Constraint> constraints_;
  Replays replays_;
  std::optional<LowerBound> bound_;
};

Plan solve(const Graph& graph, const Request& request, const std::vector<Constraint>& constraints) {
  Planner planner(graph, request, constraints);
  return planner.described(planner.choose());
}

bool may_offload(const Request& request) { return request.host_link && has_budget(request); }

bool may_round(const Request& request) {
  return request.bytes_rounded_per_second && has_budget(request);
}

/// `plan`, the best that moves nothing, or a better one that offloads or rounds.
Plan with_moves(const Graph& graph, const Request& request, Plan plan) {
  if (may_offload(request)) return with_offloads(graph, request, plan, solve);
  if (may_round(request)) return with_roundings(graph, request, plan, solve);
  return plan;
}

/// Whether the devices other than the main one are below the bound or, without one, hold next to
/// nothing or no more than in the plain step.
bool is_low_elsewhere(const Plan& plan, const Request& request) {
  std::int64_t all_bytes = 0;
  for (const DevicePeak& peak : plan.devices) all_bytes += peak.predicted_plain_peak_bytes;
  return std::all_of(plan.devices.begin() + 1, plan.devices.end(), [&](const DevicePeak& peak) {
    const auto most = std::max(peak.predicted_plain_peak_bytes, negligible_bytes(all_bytes));
    return peak.predicted_peak_bytes <= request.max_peak_bytes.value_or(most);
  });
}

/// The same for a graph of several devices. The plan's own figures are those of the main one.
Plan solve_on_devices(const Graph& graph, const Request& request,
                      const std::vector<Constraint>& constraints) {
  validate(graph);
  const DeviceMaker make = [](const Graph& g, const Request& r, const std::vector<Constraint>& v,
                              Replays replays) {
    Candidate chosen = Planner(g, r, v, replays).choose().candidate;
    return FixedPlan{std::move(chosen.keep), std::move(chosen.sweeps)};
  };
  DeviceChoice chosen;
  if (request.policy) {
    chosen.made = request.policy->plan(graph);
  } else {
    chosen = choose_on_devices(graph, request, constraints, make);
  }
  const Graph main = on_device(graph, 0);
  Planner planner(main, request, constraints);
  Plan plan = planner.described({planner.evaluated(std::move(chosen.made)), chosen.feasible});
  plan.devices = device_peaks(graph, plan);
  if (!chosen.main_alone) return plan;
  Plan with = with_moves(main, request, plan);
  with.devices = device_peaks(graph, with);
  return is_low_elsewhere(with, request) ? with : plan;
}

/// Constraints under which a plan for the main device keeps what is saved on others.
std::vector<Constraint> keeping_elsewhere(const Graph& graph, std::vector<Constraint> constraints) {
  for (std::size_t v = 0; v < constraints.size(); ++v) {
    const Value& x = graph.values[v];
    const bool is_open = constraints[v] == Constraint::open && can_choose(x);
    if (is_open && x.saved && x.device != 0) constraints[v] = Constraint::keep;
  }
  return constraints;
}

Front find_front(const Graph& graph, const ReplayCost& replay_cost,
                 const std::vector<Constraint>& constraints, const FrontRequest& request) {
  if (!request.nested) return find_single_replays(graph, replay_cost, constraints, {});
  AnswerBook book(graph, replay_cost, constraints, request.effort);
  book.finish();
  return book.front();
}

/// Moving needs the seconds of work that it goes on beside, and a policy may be one of seconds.
bool is_searched_without_seconds(const Request& request) {
  const bool moves = request.host_link || request.bytes_rounded_per_second;
  return request.cost == CostModel::flops && !request.policy && !moves;
}

Plan solve_and_move(const Graph& graph, const Request& request,
                    const std::vector<Constraint>& constraints) {
  if (num_devices(graph) > 1) return solve_on_devices(graph, request, constraints);
  return with_moves(graph, request, solve(graph, request, constraints));
}

/// The front without the seconds that planning took.
std::vector<Plan> plan_front(const Graph& graph_of_all, const FrontRequest& request) {
  const Graph graph = on_device(graph_of_all, 0);
  const ReplayCost replay_cost(graph, request.cost);
  const auto constraints = keeping_elsewhere(graph_of_all, select(graph_of_all, request.selection));
  const Front front = find_front(graph, replay_cost, constraints, request);
  LowerBound bound(graph, replay_cost);
  for (const double overhead : kBoundOverheads) bound.tighten(overhead, kNumCuts / 2);
  Describer describer(graph, replay_cost, bound);
  std::vector<Plan> plans;
  for (const Candidate& point : front.candidates()) {
    plans.push_back(describer.plan(point, "max_overhead"));
    plans.back().devices = device_peaks(graph_of_all, plans.back());
  }
  return plans;
}

/// Gives plans that were found by nominal seconds those that were measured.
void measure_seconds(const Graph& graph, std::span<Plan> plans) {
  Simulator simulator(graph);
  const ReplayCost replay_cost(graph, CostModel::flops);
  for (Plan& plan : plans) {
    const Simulation result = simulator.run(plan);
    plan.predicted_overhead_seconds = replay_cost.seconds_ratio(result.replay_seconds);
  }
}

}  // namespace

Plan make_plan(const Graph& graph, const Request& request) {
  const PlanningTimer timer;
  check(request);
  if (request.host_link) check_host_link(*request.host_link);
  const auto constraints = select(graph, request.selection);
  Plan plan;
  if (is_searched_without_seconds(request)) {
    plan = solve_and_move(with_nominal_seconds(graph), request, constraints);
    measure_seconds(graph, {&plan, 1});
  } else {
    plan = solve_and_move(graph, request, constraints);
  }
  plan.planning_seconds = timer.seconds();
  return plan;
}

std::vector<Plan> make_front(const Graph& graph, const FrontRequest& request) {
  const PlanningTimer timer;
  check_effort("FrontRequest", request.effort);
  if (num_devices(graph) > 1) validate(graph);
  std::vector<Plan> plans;
  if (request.cost == CostModel::flops) {
    plans = plan_front(with_nominal_seconds(graph), request);
    measure_seconds(graph, plans);
  } else {
    plans = plan_front(graph, request);
  }
  for (Plan& plan : plans) plan.planning_seconds = timer.seconds();
  return plans;
}

}  // namespace gradrecomp::plan
