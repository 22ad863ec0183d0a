#include "proven_by_ops.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "line_fit.h"
#include "plan/bounds/cost_units.h"

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kMostWork = 1'400'000'000;        // less than a minute
constexpr std::int64_t kMostForFewVisits = 300'000'000;  // which are worth no more
constexpr int kFewVisits = 2;

}  // namespace

ProvenByOps::ProvenByOps(const Graph& graph, const ReplayCost& replay_cost, const Proof& proof)
    : program_(graph, replay_cost, proof), work_left_(kMostWork) {}

bool ProvenByOps::denies(const PlanLimits& limits) {
  return (!by_loads_ && denies_by_prices(limits)) || denies_by_loads(limits);
}

// With more visits more is proven, and it takes several times as long.
bool ProvenByOps::denies_by_prices(const PlanLimits& limits) {
  for (int visits = kFewVisits; visits <= kMostVisits; ++visits) {
    const auto priced = program_.find_priced(limits, {kMostPricedWork, visits});
    if (!priced.exists) return true;
    if (priced.gave_up) break;
  }
  return false;
}

bool ProvenByOps::denies_by_loads(const PlanLimits& limits) {
  std::int64_t work_left = work_left_;
  for (int visits = kFewVisits; visits <= kMostVisits; ++visits) {
    const std::int64_t most =
        visits == kFewVisits ? std::min(work_left, kMostForFewVisits) : work_left;
    const auto answer = program_.find(limits, {most, visits});
    work_left -= answer.work;
    if (shares_work_) work_left_ = work_left;
    if (!answer.exists) return true;
    if (answer.gave_up || work_left < answer.work) break;
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
