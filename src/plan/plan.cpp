#include "gradrecomp/plan/plan.h"

#include <sstream>

#include "plan/spelling.h"

namespace gradrecomp::plan {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 1.0;
}

std::string spelled_peak(std::int64_t bytes, std::int64_t plain_bytes) {
  return spelled_bytes(bytes) + " (" + spelled_percent(share(bytes, plain_bytes)) + " of plain)";
}

std::string spelled_peaks(const Plan& plan) {
  if (plan.devices.empty()) {
    return spelled_peak(plan.predicted_peak_bytes, plan.predicted_plain_peak_bytes);
  }
  std::string text;
  for (const auto& [device, bytes, plain_bytes] : plan.devices) {
    text += (text.empty() ? "" : ", ") + spelled_peak(bytes, plain_bytes) + " on " + device;
  }
  return text;
}

}  // namespace

double Plan::predicted_overhead(CostModel of) const {
  return of == CostModel::seconds ? predicted_overhead_seconds : predicted_overhead_flops;
}

void Plan::withdraw_proofs() {
  proven_peak_bytes = 0;
  proven_overhead = 0;
  peak_proof = {};
  overhead_proof = {};
}

std::string Plan::brief_report() const {
  std::ostringstream text;
  text << policy << ": predicted peak " << spelled_peaks(*this) << ", overhead "
       << spelled_percent(predicted_overhead_seconds) << " in seconds, "
       << spelled_percent(predicted_overhead_flops) << " in FLOPs, " << num_replayed_ops
       << " replayed ops";
  if (!offloads.empty()) {
    text << ", " << spelled_bytes(offloaded_bytes) << " to host memory and back, stalls "
         << spelled_percent(predicted_stall);
  }
  if (!roundings.empty()) {
    text << ", " << spelled_bytes(rounded_bytes) << " rounded to bfloat16 (gradients are not "
         << "plain's), which takes " << spelled_percent(predicted_rounding);
  }
  if (proven_peak_bytes > 0) {
    text << "; proven: no plan below " << spelled_bytes(proven_peak_bytes)
         << " at this overhead, nor below " << spelled_percent(proven_overhead)
         << (cost == CostModel::seconds ? " in seconds" : " in FLOPs") << " at this peak";
  }
  if (!feasible) text << "; does not meet the bound, nearest plan found";
  return text.str();
}

}  // namespace gradrecomp::plan
