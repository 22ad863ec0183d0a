#include "gradrecomp/plan/solver.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "blocks.h"
#include "chain_front.h"
#include "error.h"
#include "front.h"
#include "polish.h"
#include "pricing.h"
#include "segments.h"

// Note [ Monotone budgets ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A heuristic search started anew for every budget would now and then find less for a larger one.
// So what is searched does not depend on the budget: one front, filled by the fixed policies, by
// all points of the chain program, and by a polish at each of a fixed ladder of budgets. A question
// reads its answer off that front. max_overhead = x only needs the rungs up to x, which are all
// that any smaller budget has seen too; so its peak is at most theirs.

namespace gradrecomp::plan {
namespace {

constexpr int kMaxBlocks = 128;
constexpr Index kMaxSegmentBlocks = 8;
constexpr int kMaxSegmentOptions = 12;
constexpr int kNumCostBuckets = 3000;
constexpr Index kMaxEvery = 32;
constexpr std::array kRungs{0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.25, 0.35};

void check_budgets(const Request& request) {
  const int num_budgets = (request.max_overhead ? 1 : 0) + (request.max_peak_bytes ? 1 : 0);
  if (num_budgets == 2) {
    raise({"make_plan", "num budgets", "2", "1",
           "Set max_overhead or max_peak_bytes, and read the other from the plan"});
  }
  if (request.max_overhead && !(*request.max_overhead >= 0)) {
    raise({"make_plan", "max_overhead", spelled(*request.max_overhead), "at least 0",
           "Pass a ratio to the plain step, 0.05 for 5%"});
  }
  if (request.max_peak_bytes && *request.max_peak_bytes <= 0) {
    raise({"make_plan", "max_peak_bytes", spelled(*request.max_peak_bytes), "above 0",
           "Pass the bytes that activations may take"});
  }
}

/// The policy of a request whose budgets are consistent with it.
Policy requested_policy(const Request& request) {
  check_budgets(request);
  const bool has_budget = request.max_overhead || request.max_peak_bytes;
  if (request.policy.empty() && !has_budget) {
    raise({"make_plan", "num budgets", "0", "1 where no policy is set",
           "Set max_overhead (0.05 is a good start), max_peak_bytes or policy"});
  }
  const Policy by_budget{request.max_peak_bytes ? PolicyKind::max_peak_bytes
                                                : PolicyKind::max_overhead};
  if (request.policy.empty()) return by_budget;
  const Policy policy = parse_policy(request.policy);
  const bool needs_budget =
      policy.kind == PolicyKind::max_overhead || policy.kind == PolicyKind::max_peak_bytes;
  if (needs_budget != has_budget || (has_budget && policy != by_budget)) {
    raise({"make_plan", "policy", '"' + request.policy + '"', "the one its budget names",
           "Set the budget of that name, and none for a fixed policy"});
  }
  return policy;
}

class Solver {
 public:
  Solver(const Graph& graph, const Request& request)
      : graph_(graph),
        request_(request),
        policy_(requested_policy(request)),
        pricing_(graph, request.cost),
        polish_(graph, pricing_, select(graph, request.selection)) {
    const auto per_simulation = static_cast<double>(graph.events.size() + graph.ops.size() + 1);
    num_simulations_ = static_cast<int>(std::min(2000.0, 5e6 / per_simulation));
  }

  Plan solve() {
    if (policy_.kind == PolicyKind::max_overhead) return within_overhead(*request_.max_overhead);
    if (policy_.kind == PolicyKind::max_peak_bytes) return within_peak(*request_.max_peak_bytes);
    return describe(polish_.evaluate(kept_set(graph_, policy_)), true);
  }

 private:
  Plan within_overhead(double max_overhead) {
    fill_front();
    climb(max_overhead);
    const Candidate* best = front_.least_peak(max_overhead);
    const bool feasible = best != nullptr;
    if (!feasible) best = front_.least_total(kAnyPeak);
    return describe(spare(*best, best->result.peak_bytes), feasible);
  }

  Plan within_peak(std::int64_t max_peak_bytes) {
    fill_front();
    const Candidate* best = front_.least_total(max_peak_bytes);
    if (best == nullptr || best->total > 0) {
      climb(kAnyOverhead);
      best = front_.least_total(max_peak_bytes);
    }
    const bool feasible = best != nullptr;
    if (!feasible) best = front_.least_peak(kAnyOverhead);
    return describe(spare(*best, feasible ? max_peak_bytes : best->result.peak_bytes), feasible);
  }

  Candidate spare(const Candidate& chosen, std::int64_t max_peak_bytes) {
    return polish_.spare_replays(chosen, max_peak_bytes, num_simulations_);
  }

  void add_policy(const Policy& policy) { front_.add(polish_.evaluate(kept_set(graph_, policy))); }

  void fill_front() {
    for (const PolicyKind kind : {PolicyKind::keep_all, PolicyKind::drop_all, PolicyKind::sqrt_n,
                                  PolicyKind::pointwise_only}) {
      add_policy({kind});
    }
    const auto num_stages = static_cast<Index>(graph_.stages.size());
    for (Index k = 1; k <= std::min(num_stages, kMaxEvery); ++k) {
      add_policy({PolicyKind::every_k, k});
    }
    Segments segments(graph_, pricing_, find_blocks(graph_, kMaxBlocks));
    Simulator simulator(graph_);
    const std::vector<SegmentOption> options =
        segments.measure(simulator, kMaxSegmentBlocks, kMaxSegmentOptions);
    for (const ChainPoint& point : chain_front(options, segments.num_blocks(), kNumCostBuckets)) {
      front_.add(polish_.evaluate(segments.compose(point.chain)));
    }
  }

  /// Polishes the front at every rung of the ladder up to `max_overhead`.
  void climb(double max_overhead) {
    for (const double rung : kRungs) {
      if (rung > max_overhead) return;
      const Candidate* start = front_.least_peak(rung);
      if (start != nullptr) front_.add(polish_.lower_peak(*start, rung, num_simulations_));
    }
  }

  [[nodiscard]] Plan describe(const Candidate& chosen, bool feasible) const {
    const Simulation& result = chosen.result;
    Plan plan;
    plan.policy = to_string(policy_);
    plan.keep = chosen.keep;
    plan.signature = graph_.signature;
    plan.cost = request_.cost;
    plan.feasible = feasible;
    plan.predicted_peak_bytes = result.peak_bytes;
    plan.predicted_plain_peak_bytes = simulate(graph_, keep_all(graph_)).peak_bytes;
    plan.predicted_overhead_seconds = pricing_.seconds_ratio(result.replay_seconds);
    plan.predicted_overhead_flops = pricing_.flops_ratio(result.replay_flops);
    plan.num_replayed_ops = result.num_replayed_ops;
    return plan;
  }

  static constexpr auto kAnyPeak = std::numeric_limits<std::int64_t>::max();
  static constexpr auto kAnyOverhead = std::numeric_limits<double>::infinity();

  const Graph& graph_;
  const Request& request_;
  Policy policy_;
  Pricing pricing_;
  Polish polish_;
  Front front_;
  int num_simulations_ = 0;
};

}  // namespace

Plan make_plan(const Graph& graph, const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = Solver(graph, request).solve();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  plan.planning_seconds = elapsed.count();
  return plan;
}

std::vector<Plan> make_front(const Graph& graph, const FrontRequest& request) {
  std::vector<Plan> front;
  for (const double rung : kRungs) {
    Plan plan = make_plan(
        graph, {.max_overhead = rung, .cost = request.cost, .selection = request.selection});
    const bool is_lower =
        front.empty() || plan.predicted_peak_bytes < front.back().predicted_peak_bytes;
    if (plan.feasible && is_lower) front.push_back(std::move(plan));
  }
  return front;
}

}  // namespace gradrecomp::plan
