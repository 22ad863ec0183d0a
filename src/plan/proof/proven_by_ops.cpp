#include "proven_by_ops.h"

#include <cmath>
#include <utility>

#include "plan/bounds/cost_units.h"

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kMostWork = 20'000'000;     // under half a second
constexpr std::int64_t kMostFitWork = 40'000'000;  // less, as loads are not compared

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

bool ProvenByOps::denies(const PlanLimits& limits) {
  if (!program_.find_priced(limits, kMostWork).exists) return true;
  const auto answer = program_.find(limits, work_left_);
  if (shares_work_) work_left_ -= answer.work;
  return !answer.exists;
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
