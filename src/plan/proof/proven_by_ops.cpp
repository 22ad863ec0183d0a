#include "proven_by_ops.h"

#include <cmath>
#include <utility>

#include "plan/bounds/cost_units.h"

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kMostWork = 20'000'000;     // under half a second
constexpr std::int64_t kMostFitWork = 40'000'000;  // less, as loads are not compared
constexpr double kOpen = 0.02;                     // what a line may leave open
constexpr double kWanted = 0.01;                   // what need not be told apart
constexpr int kNumClaims = 4;

/// The last of some claims, from `low`, which is proven, up to `high`, that `is_proven` answers
/// before one that it does not: the higher, the longer it takes.
template <typename Claim, typename Question>
Claim highest_proven(Claim low, Claim high, const Question& is_proven) {
  Claim proven = low;
  for (int i = 1; i <= kNumClaims; ++i) {
    const Claim claim = low + (high - low) * i / kNumClaims;
    if (!is_proven(claim)) break;
    proven = claim;
  }
  return proven;
}

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

void raise_proven_peak(const Graph& graph, const ReplayCost& replay_cost, Plan& plan) {
  const auto part_of_plain = [&](double part) {
    return static_cast<std::int64_t>(part * static_cast<double>(plan.predicted_plain_peak_bytes));
  };
  const std::int64_t open = plan.predicted_peak_bytes - plan.proven_peak_bytes;
  if (plan.peak_proof.moments.empty() || open <= part_of_plain(kOpen)) return;
  const double overhead = plan.predicted_overhead(plan.cost);
  ProvenByOps program(graph, replay_cost, plan.peak_proof);
  // The floor, a line without a price, is where no fit begins.
  const bool is_floor = plan.peak_proof.price == 0;
  ProvenByOps to_fit(graph, replay_cost, is_floor ? plan.overhead_proof : plan.peak_proof);
  auto [line, fitted_bytes] = to_fit.fitted(plan, overhead);
  std::int64_t proven = plan.proven_peak_bytes;
  ProvenByOps by_fitted(graph, replay_cost, line);
  if (fitted_bytes > proven && by_fitted.is_proven_peak(fitted_bytes, overhead)) {
    proven = fitted_bytes;
  }
  const std::int64_t high = plan.predicted_peak_bytes - part_of_plain(kWanted);
  program.share_work();
  const std::int64_t by_loads = highest_proven(proven, high, [&](std::int64_t peak_bytes) {
    return program.is_proven_peak(peak_bytes, overhead);
  });
  if (by_loads <= plan.proven_peak_bytes) return;
  plan.proven_peak_bytes = by_loads;
  if (by_loads == proven) plan.peak_proof = std::move(line);
  plan.peak_proof.by_ops = true;
}

void raise_proven_overhead(const Graph& graph, const ReplayCost& replay_cost, Plan& plan) {
  const double predicted = plan.predicted_overhead(plan.cost);
  if (plan.overhead_proof.moments.empty() || predicted - plan.proven_overhead <= kOpen) return;
  const auto first = plan.overhead_proof;
  const Proof fitted = ProvenByOps(graph, replay_cost, first).fitted(plan, predicted).line;
  for (const Proof& line : {fitted, first}) {
    ProvenByOps program(graph, replay_cost, line);
    program.share_work();
    const double proven =
        highest_proven(plan.proven_overhead, predicted - kWanted, [&](double overhead) {
          return program.is_proven_overhead(overhead, plan.predicted_peak_bytes);
        });
    if (proven <= plan.proven_overhead) continue;
    plan.proven_overhead = proven;
    plan.overhead_proof = line;
    plan.overhead_proof.by_ops = true;
  }
}

}  // namespace gradrecomp::plan
