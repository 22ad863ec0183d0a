#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "format.h"
#include "gradrecomp/plan/signature.h"
#include "report/report_table.h"
#include "report/reports.h"

namespace gradrecomp::program {
namespace {

/// Bytes and counts are whole, overheads are not.
std::string figure(double number) {
  return number == std::floor(number) ? fmt::format("{:.0f}", number)
                                      : fmt::format("{:.12f}", number);
}

std::string head(const plan::SavedPlan& saved) {
  return fmt::format(
      "{} of {}, signature {}\n"
      "Peaks are activation bytes, simulated anew. Proven figures are what a minimum cut in whole "
      "numbers gives\nfor the weights in the plan: no plan has a lower peak at this overhead in "
      "{}, and none less overhead at this peak.\n\n",
      saved.plan.policy, saved.origin.description, plan::signature_text(saved.plan.signature),
      to_string(saved.plan.cost));
}

}  // namespace

std::string claims_table(const plan::SavedPlan& saved, const std::vector<plan::Claim>& claims) {
  ReportTable table({"what", "the plan says", "found", "holds"});
  for (const auto& claim : claims) {
    table.add({claim.name, figure(claim.claimed), figure(claim.found), claim.holds ? "yes" : "NO"});
  }
  const auto num_false = std::ranges::count(claims, false, &plan::Claim::holds);
  const auto verdict = num_false == 0
                           ? "All of it holds.\n"
                           : fmt::format("{} of {} do not hold.\n", num_false, claims.size());
  return head(saved) + table.text() + "\n" + verdict;
}

}  // namespace gradrecomp::program
