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

void add_proofs(const Graph& graph, const Plan& plan, std::vector<Claim>& claims) {
  const Graph main = on_device(graph, 0);
  const ReplayCost replay_cost(main, plan.cost);
  const ProvenLine below(main, replay_cost, plan.peak_proof, "peak_proof");
  const ProvenLine before(main, replay_cost, plan.overhead_proof, "overhead_proof");
  claims.push_back(proven("proven_peak_bytes", plan.proven_peak_bytes,
                          below.peak_bytes(plan.predicted_overhead(plan.cost))));
  claims.push_back(
      proven("proven_overhead", plan.proven_overhead, before.overhead(plan.predicted_peak_bytes)));
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
