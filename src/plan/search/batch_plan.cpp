#include "gradrecomp/plan/batch_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "budget_checks.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/predict.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/error.h"

// Note [ Searching batch sizes ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A plan takes far longer to make than a graph or its plain peak, so the searches are made to ask
// for few plans. The least peak under a fixed overhead is nearly a line in the batch: a secant
// through the last two batches tried lands next to the largest one that fits, where bisection would
// go through every power of two. Throughput has one rise and one fall, and is at most that of the
// plain step: a climb in steps that double while they gain and shrink when they do not skips every
// batch whose plain step is already slower than the best plan found. What a plan keeps is good for
// other batches too, and to see how it does there needs no planning: so each plan is moved to the
// largest batch that it fits, or to the smallest at which it is fast enough.

namespace gradrecomp::plan {
namespace {

constexpr int kMaxPlans = 14;
constexpr int kMaxSecants = 8;
constexpr double kNone = -std::numeric_limits<double>::infinity();

void check_max_batch(const char* function, Index max_batch) {
  if (max_batch >= 1) return;
  raise({function, "max_batch", spelled(max_batch), "at least 1", "Leave it out for no bound"});
}

void check(const char* function, const BatchRequest& request) {
  check_max_peak_bytes(function, request.max_peak_bytes);
  if (request.max_overhead) check_max_overhead(function, *request.max_overhead);
  check_max_batch(function, request.max_batch);
}

void check(const ThroughputRequest& request) {
  if (!(request.min_samples_per_second > 0)) {
    raise({"least_memory", "min_samples_per_second", spelled(request.min_samples_per_second),
           "above 0", "Pass the throughput that the step must reach"});
  }
  check_max_batch("least_memory", request.max_batch);
}

double plain_samples_per_second(const BatchFit& fit, Index batch) {
  const double seconds = fit.step_seconds_at(batch);
  return seconds > 0 ? batch / seconds : 0;
}

BatchPlan described(const BatchFit& fit, Index batch, Plan plan) {
  const double plain = plain_samples_per_second(fit, batch);
  const double rate = plain / (1 + plan.predicted_overhead_seconds);
  return {batch, std::move(plan), rate};
}

/// What the same kept values do at another batch.
BatchPlan moved(const BatchFit& fit, Index batch, Plan plan) {
  const Graph graph = fit.graph_at(batch);
  plan = predict(graph, std::move(plan));
  plan.signature = graph.signature;
  plan.withdraw_proofs();
  return described(fit, batch, std::move(plan));
}

/// The plan of the nearest batch, said to be none.
BatchPlan refused(BatchPlan nearest) {
  nearest.batch = 0;
  nearest.plan.feasible = false;
  return nearest;
}

/// Finds the largest batch whose peak is at most `max_bytes`; see Note [ Searching batch sizes ].
class LargestBatch {
 public:
  using Peak = std::function<std::int64_t(Index batch)>;

  LargestBatch(Peak peak, std::int64_t max_bytes, Index max_batch)
      : peak_(std::move(peak)), max_bytes_(max_bytes), above_(max_batch + 1) {}

  /// 0 if not even one sample fits.
  Index find(Index first_guess) {
    try_batch(std::min(first_guess, above_ - 1));
    for (int i = 1; i < kMaxPlans && above_ - below_ > 1; ++i) {
      const bool is_near = i < kMaxSecants;
      try_batch(is_near ? secant() : below_ + (above_ - below_) / 2);
    }
    return below_;
  }

 private:
  struct TriedBatch {
    double batch = 0;
    double peak_bytes = 0;
  };

  void try_batch(Index batch) {
    const std::int64_t peak_bytes = peak_(batch);
    (peak_bytes <= max_bytes_ ? below_ : above_) = batch;
    before_last_ = last_;
    last_ = {static_cast<double>(batch), static_cast<double>(peak_bytes)};
  }

  /// Where the line through the last two trials, the first of them (0, 0), meets the bound.
  [[nodiscard]] Index secant() const {
    const double slope =
        (last_.peak_bytes - before_last_.peak_bytes) / (last_.batch - before_last_.batch);
    const double spare = static_cast<double>(max_bytes_) - last_.peak_bytes;
    const double guess = slope > 0 ? std::floor(last_.batch + spare / slope) : above_ - 1.0;
    return static_cast<Index>(std::clamp(guess, below_ + 1.0, above_ - 1.0));
  }

  Peak peak_;
  std::int64_t max_bytes_;
  Index below_ = 0;  ///< the largest batch known to fit
  Index above_;      ///< the smallest one known not to
  TriedBatch last_;
  TriedBatch before_last_;
};

/// Climbs to the batch of the highest value.
class Climb {
 public:
  using Evaluate = std::function<double(Index batch)>;

  /// `bound` is cheap and never below `value`.
  Climb(Evaluate value, Evaluate bound) : value_(std::move(value)), bound_(std::move(bound)) {}

  Index find(Index start, Index lowest, Index highest) {
    best_ = start;
    best_value_ = value_(start);
    Index step = std::max<Index>(1, start / 4);
    while (step > 0) {
      const Index up = std::min(highest, best_ + std::min(step, highest - best_));
      const Index down = std::max(lowest, best_ - step);
      const bool gained = try_batch(up) || try_batch(down);
      step = gained ? std::min(step, highest / 2) * 2 : step / 4;
    }
    return best_;
  }

 private:
  bool try_batch(Index batch) {
    if (num_values_ + 1 >= kMaxPlans || bound_(batch) <= best_value_) return false;
    if (tried_.contains(batch)) return false;
    ++num_values_;
    tried_[batch] = value_(batch);
    if (tried_[batch] <= best_value_) return false;
    best_ = batch;
    best_value_ = tried_[batch];
    return true;
  }

  Evaluate value_;
  Evaluate bound_;
  std::map<Index, double> tried_;
  int num_values_ = 0;
  Index best_ = 0;
  double best_value_ = kNone;
};

/// The least peak that the request's overhead reaches, whatever bytes it allows.
Plan least_peak_plan(const Graph& graph, const BatchRequest& request) {
  if (request.max_overhead) {
    return make_plan(graph, {.max_overhead = request.max_overhead,
                             .cost = request.cost,
                             .selection = request.selection});
  }
  return make_plan(graph,
                   {.max_peak_bytes = 1, .cost = request.cost, .selection = request.selection});
}

Plan least_overhead_plan(const Graph& graph, const BatchRequest& request) {
  return make_plan(graph, {.max_peak_bytes = request.max_peak_bytes,
                           .cost = request.cost,
                           .selection = request.selection});
}

bool is_within(const Plan& plan, const BatchRequest& request) {
  return plan.predicted_peak_bytes <= request.max_peak_bytes &&
         (!request.max_overhead || plan.predicted_overhead(request.cost) <= *request.max_overhead);
}

/// The largest batch whose plain step fits; 0 if none.
Index largest_plain_batch(const BatchFit& fit, const BatchRequest& request) {
  const auto peak = [&](Index batch) {
    const Graph graph = fit.graph_at(batch);
    return simulate(graph, keep_all(graph)).peak_bytes;
  };
  return LargestBatch(peak, request.max_peak_bytes, request.max_batch).find(fit.small_batch());
}

/// The plan of `found` at the largest batch at which it is within the request.
BatchPlan stretched(const BatchFit& fit, const BatchRequest& request, const BatchPlan& found) {
  const auto peak = [&](Index batch) {
    return moved(fit, batch, found.plan).plan.predicted_peak_bytes;
  };
  LargestBatch search(peak, request.max_peak_bytes, request.max_batch);
  const Index batch = search.find(found.batch);
  if (batch <= found.batch) return found;
  BatchPlan larger = moved(fit, batch, found.plan);
  return is_within(larger.plan, request) ? larger : found;
}

/// The plan of `found`, which is fast enough, at the smallest batch at which it still is.
BatchPlan shrunk(const BatchFit& fit, double min_samples_per_second, const BatchPlan& found) {
  BatchPlan best = found;
  Index slow = 0;
  while (best.batch - slow > 1) {
    BatchPlan middle = moved(fit, slow + (best.batch - slow) / 2, found.plan);
    if (middle.predicted_samples_per_second >= min_samples_per_second) {
      best = std::move(middle);
    } else {
      slow = middle.batch;
    }
  }
  return best;
}

/// The smallest batch whose plain step reaches the throughput; 0 if none.
Index smallest_fast_batch(const BatchFit& fit, const ThroughputRequest& request) {
  const auto is_fast = [&](Index batch) {
    return plain_samples_per_second(fit, batch) >= request.min_samples_per_second;
  };
  if (!is_fast(request.max_batch)) return is_fast(1) ? 1 : 0;
  Index below = 0;
  Index fast = request.max_batch;
  while (fast - below > 1) {
    const Index middle = below + (fast - below) / 2;
    (is_fast(middle) ? fast : below) = middle;
  }
  return fast;
}

}  // namespace

BatchPlan largest_batch(const BatchFit& fit, const BatchRequest& request) {
  check("largest_batch", request);
  std::map<Index, Plan> plans;
  const auto peak = [&](Index batch) {
    const Plan& plan = plans[batch] = least_peak_plan(fit.graph_at(batch), request);
    const bool is_allowed = !request.max_overhead || plan.feasible;
    return is_allowed ? plan.predicted_peak_bytes : std::numeric_limits<std::int64_t>::max();
  };
  const Index batch =
      LargestBatch(peak, request.max_peak_bytes, request.max_batch).find(fit.small_batch());
  if (batch == 0) return refused(described(fit, plans.begin()->first, plans.begin()->second));
  Plan plan = least_overhead_plan(fit.graph_at(batch), request);
  if (!is_within(plan, request)) plan = plans[batch];
  plan.feasible = true;
  return described(fit, batch, std::move(plan));
}

BatchPlan best_throughput(const BatchFit& fit, const BatchRequest& request) {
  check("best_throughput", request);
  std::map<Index, BatchPlan> found;
  const auto value = [&](Index batch) {
    BatchPlan& at = found[batch];
    at = described(fit, batch, least_overhead_plan(fit.graph_at(batch), request));
    if (!is_within(at.plan, request)) return kNone;
    at = stretched(fit, request, at);
    return at.predicted_samples_per_second;
  };
  const auto bound = [&](Index batch) { return plain_samples_per_second(fit, batch); };
  const Index start = std::max<Index>(1, largest_plain_batch(fit, request));
  const Index lowest = std::min(fit.small_batch(), start);
  const BatchPlan best = found[Climb(value, bound).find(start, lowest, request.max_batch)];
  return is_within(best.plan, request) ? best : refused(best);
}

BatchPlan least_memory(const BatchFit& fit, const ThroughputRequest& request) {
  check(request);
  const auto slack = [&](Index batch) {
    return plain_samples_per_second(fit, batch) / request.min_samples_per_second - 1;
  };
  std::map<Index, BatchPlan> found;
  const auto value = [&](Index batch) {
    const double max_overhead = std::max(0.0, slack(batch));
    Plan plan = make_plan(fit.graph_at(batch),
                          {.max_overhead = max_overhead, .selection = request.selection});
    const bool is_fast = slack(batch) >= 0 && plan.feasible;
    BatchPlan& at = found[batch];
    at = described(fit, batch, std::move(plan));
    if (!is_fast) return kNone;
    at = shrunk(fit, request.min_samples_per_second, at);
    return -static_cast<double>(at.plan.predicted_peak_bytes);
  };
  const auto bound = [&](Index batch) { return slack(batch) >= 0 ? 0 : kNone; };
  const Index start = smallest_fast_batch(fit, request);
  if (start == 0) {
    value(request.max_batch);
    return refused(found[request.max_batch]);
  }
  const BatchPlan best = found[Climb(value, bound).find(start, 1, request.max_batch)];
  return best.plan.feasible ? best : refused(best);
}

}  // namespace gradrecomp::plan
