#include "prover.h"

#include <utility>

namespace gradrecomp::plan {

void Prover::prove(Plan& plan) {
  if (!bound_.has_lines()) return;
  const double overhead = plan.predicted_overhead(plan.cost);
  const Proven& below = proven(bound_.best_line_at_overhead(overhead));
  plan.proven_peak_bytes = below.line.peak_bytes(overhead);
  plan.peak_proof = below.proof;
  const Proven& before = proven(bound_.best_line_at_peak(plan.predicted_peak_bytes));
  plan.proven_overhead = before.line.overhead(plan.predicted_peak_bytes);
  plan.overhead_proof = before.proof;
}

const Prover::Proven& Prover::proven(std::size_t line) {
  const auto found = lines_.find(line);
  if (found != lines_.end()) return found->second;
  Proof proof = bound_.proof_of(line);
  const ProvenLine proven(graph_, replay_cost_, proof, "proof");
  return lines_.emplace(line, Proven{std::move(proof), proven}).first->second;
}

}  // namespace gradrecomp::plan
