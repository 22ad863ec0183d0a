#include "format.h"

#include <fmt/format.h>

namespace gradrecomp::program {

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 0x1p20);
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 1;
}

std::string percent(double ratio) { return fmt::format("{:.1f}%", 100 * ratio); }

std::string difference(std::int64_t measured, std::int64_t predicted) {
  if (measured == predicted) return "exact";
  return fmt::format("{:+.2f}%", 100 * (share(predicted, measured) - 1));
}

std::string_view to_string(plan::CostModel cost) {
  return cost == plan::CostModel::flops ? "flops" : "seconds";
}

double predicted_share(const plan::Plan& plan) {
  return share(plan.predicted_peak_bytes, plan.predicted_plain_peak_bytes);
}

std::string proven_peak(const plan::Plan& plan, std::int64_t plain_peak_bytes) {
  if (plan.proven_peak_bytes == 0) return "";
  return percent(share(plan.proven_peak_bytes, plain_peak_bytes));
}

std::string proven_overhead(const plan::Plan& plan) {
  return plan.proven_peak_bytes == 0 ? "" : percent(plan.proven_overhead);
}

}  // namespace gradrecomp::program
