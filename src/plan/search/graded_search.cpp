#include "graded_search.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include "gradrecomp/plan/policies.h"

// Note [ Monotone budgets ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A heuristic search started anew for every budget would now and then find less for a larger one.
// So what is searched does not depend on the budget: one front, filled by the fixed policies, by
// chain programs up to each of a ladder of grades, and by a local search at each of a finer ladder
// of rungs. A question reads its answer off that front. max_overhead = x only needs the grades up
// to the first that reaches x and the rungs up to x, which are all that any smaller budget has seen
// too; so its peak is at most theirs. A bound in bytes needs one grade, which a coarse answer
// names.

namespace gradrecomp::plan {
namespace {

constexpr Index kMaxEvery = 32;
constexpr int kNumBuckets = 400;
constexpr int kNumOpenPointsOnce = 32;   // of plans that replay nothing twice
constexpr int kNumOpenPoints = 12;       // of nested ones, whose time they are
constexpr int kNumOpenPointsWithin = 8;  // for a bound in bytes: one plan is wanted, not a front
constexpr std::int64_t kLeastStep = 1000;
constexpr std::array kRungs{0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.25, 0.35};

constexpr double kMostOnce = 0.5;  // a step's forward is less than half of it
constexpr double kNoOverhead = -1;

}  // namespace

/// Plans up to some overhead, with up to some replays of an op before it is due.
struct GradedSearch::Grade {
  double max_cost;
  int max_passes;
  static const std::array<Grade, 4> kAll;
};

const std::array<GradedSearch::Grade, 4> GradedSearch::Grade::kAll{
    {{0.06, 1}, {0.2, 1}, {kMostOnce, 2}, {4.0, 8}}};

GradedSearch::GradedSearch(const Graph& graph, const ReplayCost& replay_cost,
                           const std::vector<Verdict>& verdicts, Replays replays)
    : graph_(graph),
      local_search_(graph, replay_cost, verdicts),
      chain_(graph, replay_cost, verdicts, replays) {
  const auto per_simulation = static_cast<double>(graph.events.size() + graph.ops.size() + 1);
  const double most = chain_.is_well_cut() ? 50.0 : 2000.0;
  num_simulations_ = static_cast<int>(std::min(most, 5e6 / per_simulation));
  add_policies();
}

void GradedSearch::add_policies() {
  for (const PolicyKind kind : {PolicyKind::keep_all, PolicyKind::drop_all, PolicyKind::sqrt_n,
                                PolicyKind::pointwise_only}) {
    front_.add(local_search_.evaluate(kept_set(graph_, {kind})));
  }
  const auto num_stages = static_cast<Index>(graph_.stages.size());
  for (Index k = 1; k <= std::min(num_stages, kMaxEvery); ++k) {
    front_.add(local_search_.evaluate(kept_set(graph_, {PolicyKind::every_k, k})));
  }
}

void GradedSearch::climb(double max_overhead) {
  double done = kNoOverhead;
  for (const Grade& grade : Grade::kAll) {
    add_chain(grade);
    // Rungs of lower grades must not start from what only a higher grade knows.
    improve(done, std::min(grade.max_cost, max_overhead));
    done = grade.max_cost;
    if (done >= max_overhead) break;
  }
}

void GradedSearch::descend(std::int64_t max_peak_bytes) {
  add_chain({kMostOnce, 0}, max_peak_bytes);
  for (const Grade& grade : Grade::kAll) {
    // A coarse answer tells which grade the best one is in.
    const Candidate* known = front_.least_total(max_peak_bytes);
    const bool is_last = &grade == &Grade::kAll.back();
    const double reach = known != nullptr ? known->overhead : kMostOnce;
    if (grade.max_cost < reach && !is_last) continue;
    add_chain(grade, max_peak_bytes);
    known = front_.least_total(max_peak_bytes);
    if (known != nullptr && known->overhead <= grade.max_cost) break;
  }
  // The answer is then the least peak there is.
  if (front_.least_total(max_peak_bytes) == nullptr) add_chain(Grade::kAll.back());
  if (!chain_.is_well_cut()) improve(kNoOverhead, kAnyOverhead);
}

void GradedSearch::climb_once(double max_overhead, std::int64_t max_peak_bytes) {
  add_chain({kMostOnce, 0}, max_peak_bytes);
  // Where the menus are complete, a local search finds next to nothing.
  if (!chain_.is_well_cut()) improve(kNoOverhead, max_overhead);
}

void GradedSearch::add_point(const ChainPoint& point) {
  front_.add(local_search_.evaluate(chain_.kept(point), chain_.cached_from(point)));
}

void GradedSearch::add_chain(const Grade& grade, std::int64_t max_peak_bytes) {
  const int nested = max_peak_bytes < kAnyPeak ? kNumOpenPointsWithin : kNumOpenPoints;
  const int num_open_points = grade.max_passes == 0 ? kNumOpenPointsOnce : nested;
  const ChainSize size{.max_cost = grade.max_cost,
                       .num_buckets = kNumBuckets,
                       .num_open_points = num_open_points,
                       .max_peak_bytes = max_peak_bytes,
                       .max_passes = grade.max_passes};
  const std::vector<ChainPoint> points = chain_.front(size);
  auto last = std::numeric_limits<std::int64_t>::max();
  for (const ChainPoint& point : points) {
    // The menus' peaks are the simulator's or nearly so: a step this small is not worth a run, but
    // for those that may be the answer.
    const bool is_large = point.peak_bytes < last - last / kLeastStep;
    const bool enters = last > max_peak_bytes && point.peak_bytes <= max_peak_bytes;
    if (!is_large && !enters && &point != &points.back()) continue;
    add_point(point);
    last = point.peak_bytes;
  }
}

void GradedSearch::improve(double above, double max_overhead) {
  for (const double rung : kRungs) {
    if (rung <= above || rung > max_overhead) continue;
    const Candidate* start = front_.least_peak(rung);
    if (start != nullptr) front_.add(local_search_.lower_peak(*start, rung, num_simulations_));
  }
}

Candidate GradedSearch::spare(const Candidate& chosen, std::int64_t max_peak_bytes) {
  constexpr int kNumTrials = 100;
  return local_search_.spare_replays(chosen, max_peak_bytes,
                                     std::max(kNumTrials, num_simulations_));
}

}  // namespace gradrecomp::plan
