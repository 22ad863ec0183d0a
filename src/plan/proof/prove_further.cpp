#include "gradrecomp/plan/prove_further.h"

#include <cstdint>
#include <utility>

#include "proven_by_ops.h"

namespace gradrecomp::plan {
namespace {

constexpr double kOpen = 0.02;    // what a line may leave open
constexpr double kWanted = 0.01;  // what need not be told apart
constexpr int kNumClaims = 3;

/// The highest that `is_proven` answers for of some claims between `low`, which is proven, and
/// `high`. It asks for `first` first, if that is more than `low`.
template <typename Claim, typename Question>
Claim highest_proven(Claim low, Claim first, Claim high, const Question& is_proven) {
  for (int i = 0; i < kNumClaims && low < high; ++i) {
    const Claim claim = i == 0 && first > low ? first : low + (high - low) / 2;
    if (claim <= low) break;
    (is_proven(claim) ? low : high) = claim;
  }
  return low;
}

/// Raises the peak that is proven of `plan`.
void raise_proven_peak(const Graph& graph, const ReplayCost& replay_cost, Plan& plan) {
  const auto part_of_plain = [&](double part) {
    return static_cast<std::int64_t>(part * static_cast<double>(plan.predicted_plain_peak_bytes));
  };
  const std::int64_t open = plan.predicted_peak_bytes - plan.proven_peak_bytes;
  if (plan.peak_proof.moments.empty() || open <= part_of_plain(kOpen)) return;
  const double overhead = plan.predicted_overhead(plan.cost);
  // The floor, a line without a price, is where no fit begins.
  const bool is_floor = plan.peak_proof.price == 0;
  ProvenByOps to_fit(graph, replay_cost, is_floor ? plan.overhead_proof : plan.peak_proof);
  auto [line, fitted_bytes] = to_fit.fitted(plan, overhead);
  std::int64_t proven = plan.proven_peak_bytes;
  ProvenByOps by_fitted(graph, replay_cost, line);
  if (fitted_bytes > proven && by_fitted.is_proven_peak(fitted_bytes, overhead)) {
    proven = fitted_bytes;
  }
  const std::int64_t first = plan.predicted_peak_bytes - part_of_plain(kOpen);
  const std::int64_t high = plan.predicted_peak_bytes - part_of_plain(kWanted);
  by_fitted.share_work();
  proven = highest_proven(proven, first, high, [&](std::int64_t peak_bytes) {
    return by_fitted.is_proven_peak(peak_bytes, overhead);
  });
  if (proven <= plan.proven_peak_bytes) return;
  plan.proven_peak_bytes = proven;
  plan.peak_proof = std::move(line);
  plan.peak_proof.by_ops = true;
}

/// The same for the overhead.
void raise_proven_overhead(const Graph& graph, const ReplayCost& replay_cost, Plan& plan) {
  const double predicted = plan.predicted_overhead(plan.cost);
  if (plan.overhead_proof.moments.empty() || predicted - plan.proven_overhead <= kOpen) return;
  Proof line = ProvenByOps(graph, replay_cost, plan.overhead_proof).fitted(plan, predicted).line;
  ProvenByOps program(graph, replay_cost, line);
  program.share_work();
  const double proven = highest_proven(
      plan.proven_overhead, predicted - kOpen, predicted - kWanted, [&](double overhead) {
        return program.is_proven_overhead(overhead, plan.predicted_peak_bytes);
      });
  if (proven <= plan.proven_overhead) return;
  plan.proven_overhead = proven;
  plan.overhead_proof = std::move(line);
  plan.overhead_proof.by_ops = true;
}

}  // namespace

Plan prove_further(const Graph& graph, Plan plan) {
  if (num_devices(graph) > 1) return plan;
  const ReplayCost replay_cost(graph, plan.cost);
  if (plan.policy == "max_overhead") raise_proven_peak(graph, replay_cost, plan);
  if (plan.policy == "max_peak_bytes") raise_proven_overhead(graph, replay_cost, plan);
  return plan;
}

}  // namespace gradrecomp::plan
