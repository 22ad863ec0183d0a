#include "proven_by_ops.h"

#include <cmath>
#include <utility>

#include "plan/bounds/cost_units.h"

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kMostWork = 300'000'000;  // some seconds
constexpr std::int64_t kMostPricedWork = 80'000'000;
constexpr std::int64_t kMostFitWork = 300'000'000;  // two seconds
constexpr int kFewVisits = 2;
constexpr int kMuchMore = 2;  // times the work for each visit more

}  // namespace

ProvenByOps::ProvenByOps(const Graph& graph, const ReplayCost& replay_cost, const Proof& proof)
    : line_(proof), program_(graph, replay_cost, proof), work_left_(kMostWork) {}

LineFit::Fitted ProvenByOps::fitted(const Plan& plan, double overhead) {
  LineFit fit(program_, line_, plan.predicted_plain_peak_bytes);
  const LineFit::Goal goal{plan.proven_peak_bytes, plan.predicted_peak_bytes,
                           units_around(overhead)};
  auto fitted = fit.run(goal, kMostFitWork);
  program_.follow(line_);
  return fitted;
}

// With more visits more is proven, and it takes several times as long.
bool ProvenByOps::denies(const PlanLimits& limits) {
  for (int visits = kFewVisits; visits <= kMostVisits; ++visits) {
    const auto priced = program_.find_priced(limits, {kMostPricedWork, visits});
    if (!priced.exists) return true;
    if (priced.gave_up) break;
  }
  std::int64_t work_left = work_left_;
  for (int visits = kFewVisits; visits <= kMostVisits; ++visits) {
    const auto answer = program_.find(limits, {work_left, visits});
    work_left -= answer.work;
    if (shares_work_) work_left_ = work_left;
    if (!answer.exists) return true;
    if (answer.gave_up || work_left < kMuchMore * answer.work) break;
  }
  return false;
}

bool ProvenByOps::is_proven_peak(std::int64_t peak_bytes, double overhead) {
  if (overhead >= kDearestOp) return false;
  return denies({peak_bytes - 1, units_around(overhead)});
}

bool ProvenByOps::is_proven_overhead(double overhead, std::int64_t peak_bytes) {
  if (overhead >= kDearestOp) return false;
  const auto units = static_cast<std::int64_t>(std::ldexp(overhead, kCostBits));
  return denies({peak_bytes, units});
}

}  // namespace gradrecomp::plan
