#include "search.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

// Note [ Monotone budgets ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A heuristic search started anew for every budget would now and then find less for a larger one.
// So what is searched does not depend on the budget: one front, filled by the fixed policies, by
// chain programs up to each of a ladder of grades, and by a polish at each of a finer ladder of
// rungs. A question reads its answer off that front. max_overhead = x only needs the grades up to
// the first that reaches x and the rungs up to x, which are all that any smaller budget has seen
// too; so its peak is at most theirs.

namespace gradrecomp::plan {
namespace {

constexpr Index kMaxEvery = 32;
constexpr std::array kGrades{0.06, 0.2, 1.0};
constexpr std::array kRungs{0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.25, 0.35};

}  // namespace

Search::Search(const Graph& graph, const Pricing& pricing, const std::vector<Verdict>& verdicts)
    : graph_(graph),
      pricing_(pricing),
      polish_(graph, pricing, verdicts),
      chain_(graph, pricing, verdicts) {
  const auto per_simulation = static_cast<double>(graph.events.size() + graph.ops.size() + 1);
  const double most = chain_.is_well_cut() ? 50.0 : 2000.0;
  num_simulations_ = static_cast<int>(std::min(most, 5e6 / per_simulation));
  add_policies();
}

void Search::add_policies() {
  for (const PolicyKind kind : {PolicyKind::keep_all, PolicyKind::drop_all, PolicyKind::sqrt_n,
                                PolicyKind::pointwise_only}) {
    front_.add(evaluate(kept_set(graph_, {kind})));
  }
  const auto num_stages = static_cast<Index>(graph_.stages.size());
  for (Index k = 1; k <= std::min(num_stages, kMaxEvery); ++k) {
    front_.add(evaluate(kept_set(graph_, {PolicyKind::every_k, k})));
  }
}

void Search::climb(double max_overhead) {
  for (const double grade : kGrades) {
    add_chain(grade);
    if (grade >= max_overhead) break;
  }
  for (const double rung : kRungs) {
    if (rung <= max_overhead) polish(rung);
  }
}

void Search::add_chain(double max_overhead) {
  const ChainSize size{.max_cost = max_overhead, .num_buckets = 2000, .num_open_points = 12};
  for (const ChainPoint& point : chain_.front(size)) front_.add(evaluate(chain_.kept(point)));
}

void Search::polish(double max_overhead) {
  const Candidate* start = front_.least_peak(max_overhead);
  if (start != nullptr) front_.add(polish_.lower_peak(*start, max_overhead, num_simulations_));
}

Candidate Search::spare(const Candidate& chosen, std::int64_t max_peak_bytes) {
  constexpr int kNumTrials = 100;
  return polish_.spare_replays(chosen, max_peak_bytes, std::max(kNumTrials, num_simulations_));
}

}  // namespace gradrecomp::plan
