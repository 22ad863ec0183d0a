#include "gradrecomp/plan/prove_further.h"

#include <cstdint>
#include <utility>

#include "line_fit.h"
#include "lower_bound.h"
#include "plan/bounds/cost_units.h"
#include "proven_by_ops.h"

namespace gradrecomp::plan {
namespace {

constexpr double kOpen = 0.02;    // what a line may leave open
constexpr double kWanted = 0.01;  // what need not be told apart
constexpr int kNumClaims = 2;

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

/// The line that proves the plan's peak. Where that is the floor, a line without a price, under
/// which no plan pays for anything, one that is best at half the overhead.
Proof begin_of_fit(const Graph& graph, const ReplayCost& replay_cost, const Plan& plan) {
  if (plan.peak_proof.price != 0) return plan.peak_proof;
  constexpr int kNumCuts = 24;
  const double half = plan.predicted_overhead(plan.cost) / 2;
  LowerBound bound(graph, replay_cost);
  bound.tighten_anew(half, kNumCuts);
  return bound.proof_of(bound.best_line_at_overhead(half));
}

/// So much below the peak of a plan.
std::int64_t below_peak(const Plan& plan, double part_of_plain) {
  const auto plain = static_cast<double>(plan.predicted_plain_peak_bytes);
  return plan.predicted_peak_bytes - static_cast<std::int64_t>(part_of_plain * plain);
}

bool has_open_peak(const Plan& plan) {
  return !plan.peak_proof.moments.empty() && plan.proven_peak_bytes < below_peak(plan, kOpen);
}

/// Raises what is proven of a plan's peak.
class PeakProver {
 public:
  PeakProver(const Graph& graph, const ReplayCost& replay_cost, Plan& plan)
      : graph_(graph),
        replay_cost_(replay_cost),
        plan_(plan),
        overhead_(plan.predicted_overhead(plan.cost)),
        begin_(begin_of_fit(graph, replay_cost, plan)),
        program_(graph, replay_cost, begin_),
        fit_(program_, begin_, plan.predicted_plain_peak_bytes) {}

  /// Takes long only where the usual work leaves more than kOpen.
  void run() {
    fit(plan_.predicted_peak_bytes, kUsualWork);
    if (has_open_peak(plan_)) fit(below_peak(plan_, kOpen), kMuchWork);
  }

 private:
  static constexpr std::int64_t kUsualWork = 300'000'000;   // partial plans: two seconds
  static constexpr std::int64_t kMuchWork = 6'000'000'000;  // about a minute

  void fit(std::int64_t peak_bytes, std::int64_t work) {
    const LineFit::Fitted& fitted =
        fit_.run({plan_.proven_peak_bytes, peak_bytes, units_around(overhead_)}, work);
    if (fitted.line != tried_) prove(fitted);
    tried_ = fitted.line;
  }

  /// By a fitted line, and by loads along it.
  void prove(const LineFit::Fitted& fitted) {
    ProvenByOps by_ops(graph_, replay_cost_, fitted.line);
    std::int64_t proven = plan_.proven_peak_bytes;
    if (fitted.peak_bytes > proven && by_ops.is_proven_peak(fitted.peak_bytes, overhead_)) {
      proven = fitted.peak_bytes;
    }
    if (proven < below_peak(plan_, kOpen)) {
      by_ops.share_work();
      by_ops.go_on_by_loads();
      proven = highest_proven(
          proven, below_peak(plan_, kOpen), below_peak(plan_, kWanted),
          [&](std::int64_t bytes) { return by_ops.is_proven_peak(bytes, overhead_); });
    }
    if (proven <= plan_.proven_peak_bytes) return;
    plan_.proven_peak_bytes = proven;
    plan_.peak_proof = fitted.line;
    plan_.peak_proof.by_ops = true;
  }

  const Graph& graph_;
  const ReplayCost& replay_cost_;
  Plan& plan_;
  double overhead_;
  Proof begin_;
  OpProgram program_;
  LineFit fit_;
  Proof tried_;  ///< the last line that was fitted and used
};

/// The same for the overhead.
void raise_proven_overhead(const Graph& graph, const ReplayCost& replay_cost, Plan& plan) {
  constexpr std::int64_t kWork = 300'000'000;  // partial plans
  const double predicted = plan.predicted_overhead(plan.cost);
  if (plan.overhead_proof.moments.empty() || predicted - plan.proven_overhead <= kOpen) return;
  OpProgram to_fit(graph, replay_cost, plan.overhead_proof);
  Proof line =
      LineFit(to_fit, plan.overhead_proof, plan.predicted_plain_peak_bytes)
          .run({plan.proven_peak_bytes, plan.predicted_peak_bytes, units_around(predicted)}, kWork)
          .line;
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
  if (plan.policy == "max_overhead" && has_open_peak(plan)) {
    PeakProver(graph, replay_cost, plan).run();
  }
  if (plan.policy == "max_peak_bytes") raise_proven_overhead(graph, replay_cost, plan);
  return plan;
}

}  // namespace gradrecomp::plan
