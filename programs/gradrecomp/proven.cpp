#include "proven.h"

#include "share.h"

namespace gradrecomp::program {

std::string proven_peak(const plan::Plan& plan, std::int64_t plain_peak_bytes) {
  if (plan.proven_peak_bytes == 0) return "";
  return percent(share(plan.proven_peak_bytes, plain_peak_bytes));
}

std::string proven_overhead(const plan::Plan& plan) {
  return plan.proven_peak_bytes == 0 ? "" : percent(plan.proven_overhead);
}

}  // namespace gradrecomp::program
