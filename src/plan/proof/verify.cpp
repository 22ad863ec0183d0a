#include "gradrecomp/plan/verify.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "gradrecomp/plan/predict.h"
#include "gradrecomp/plan/signature.h"
#include "plan/error.h"
#include "plan/simulator/replay_cost.h"
#include "proven_by_ops.h"
#include "proven_line.h"

namespace gradrecomp::plan {
namespace {

void check(const Graph& graph, const Plan& plan) {
  if (plan.signature == graph.signature) return;
  raise({"verify", "plan.signature", signature_text(plan.signature),
         signature_text(graph.signature) + ", that of the graph",
         "Pass the graph that the plan was made for"});
}

Claim count(std::string name, std::int64_t claimed, std::int64_t found) {
  return {std::move(name), static_cast<double>(claimed), static_cast<double>(found),
          claimed == found};
}

Claim overhead(std::string name, double claimed, double found) {
  constexpr double kRounding = 1e-9;  // sums of doubles may be taken in another order elsewhere
  // Both are infinite where the plain step takes nothing.
  const bool holds = claimed == found || std::abs(claimed - found) <= kRounding * (1 + found);
  return {std::move(name), claimed, found, holds};
}

/// Bytes are compared as such, as doubles would not tell large ones apart.
template <typename Number>
Claim proven(std::string name, Number claimed, Number found) {
  return {std::move(name), static_cast<double>(claimed), static_cast<double>(found),
          claimed <= found};
}

void add_devices(const Plan& plan, const Plan& found, std::vector<Claim>& claims) {
  const std::size_t num_devices = plan.devices.size();
  if (num_devices != found.devices.size()) {
    claims.push_back({"devices", static_cast<double>(num_devices),
                      static_cast<double>(found.devices.size()), false});
    return;
  }
  for (std::size_t d = 0; d < num_devices; ++d) {
    const auto device = "devices[" + std::to_string(d) + "].";
    claims.push_back(count(device + "predicted_peak_bytes", plan.devices[d].predicted_peak_bytes,
                           found.devices[d].predicted_peak_bytes));
    claims.push_back(count(device + "predicted_plain_peak_bytes",
                           plan.devices[d].predicted_plain_peak_bytes,
                           found.devices[d].predicted_plain_peak_bytes));
  }
}

void add_predictions(const Plan& plan, const Plan& found, std::vector<Claim>& claims) {
  claims.push_back(
      count("predicted_peak_bytes", plan.predicted_peak_bytes, found.predicted_peak_bytes));
  claims.push_back(count("predicted_plain_peak_bytes", plan.predicted_plain_peak_bytes,
                         found.predicted_plain_peak_bytes));
  add_devices(plan, found, claims);
  claims.push_back(overhead("predicted_overhead_seconds", plan.predicted_overhead_seconds,
                            found.predicted_overhead_seconds));
  claims.push_back(overhead("predicted_overhead_flops", plan.predicted_overhead_flops,
                            found.predicted_overhead_flops));
  claims.push_back(count("num_replayed_ops", plan.num_replayed_ops, found.num_replayed_ops));
  claims.push_back(count("offloaded_bytes", plan.offloaded_bytes, found.offloaded_bytes));
  claims.push_back(count("rounded_bytes", plan.rounded_bytes, found.rounded_bytes));
}

/// The peak that the plan's proof proves, as far as the plan says.
std::int64_t found_peak_bytes(const Graph& graph, const ReplayCost& replay_cost, const Plan& plan) {
  const Proof& proof = plan.peak_proof;
  const double overhead = plan.predicted_overhead(plan.cost);
  const std::int64_t by_line =
      ProvenLine(graph, replay_cost, proof, "peak_proof").peak_bytes(overhead);
  const std::int64_t claimed = plan.proven_peak_bytes;
  if (!proof.by_ops || claimed <= by_line) return by_line;
  ProvenByOps by_ops(graph, replay_cost, proof);
  return by_ops.is_proven_peak(claimed, overhead) ? claimed : by_line;
}

double found_overhead(const Graph& graph, const ReplayCost& replay_cost, const Plan& plan) {
  const Proof& proof = plan.overhead_proof;
  const std::int64_t peak_bytes = plan.predicted_peak_bytes;
  const double by_line =
      ProvenLine(graph, replay_cost, proof, "overhead_proof").overhead(peak_bytes);
  const double claimed = plan.proven_overhead;
  if (!proof.by_ops || claimed <= by_line) return by_line;
  ProvenByOps by_ops(graph, replay_cost, proof);
  return by_ops.is_proven_overhead(claimed, peak_bytes) ? claimed : by_line;
}

void add_proofs(const Graph& graph, const Plan& plan, std::vector<Claim>& claims) {
  const Graph main = on_device(graph, 0);
  const ReplayCost replay_cost(main, plan.cost);
  claims.push_back(proven("proven_peak_bytes", plan.proven_peak_bytes,
                          found_peak_bytes(main, replay_cost, plan)));
  claims.push_back(
      proven("proven_overhead", plan.proven_overhead, found_overhead(main, replay_cost, plan)));
}

}  // namespace

std::vector<Claim> verify(const Graph& graph, const Plan& plan) {
  check(graph, plan);
  std::vector<Claim> claims;
  add_predictions(plan, predict(graph, plan), claims);
  add_proofs(graph, plan, claims);
  return claims;
}

}  // namespace gradrecomp::plan
