#include "gradrecomp/plan/plan.h"

#include <gtest/gtest.h>

namespace gradrecomp::plan {
namespace {

TEST(Plan, BriefReportSaysPeakShareAndBothOverheads) {
  const Plan plan{.policy = "max_overhead",
                  .predicted_peak_bytes = 3 << 20,
                  .predicted_plain_peak_bytes = 12 << 20,
                  .predicted_overhead_seconds = 0.0625,
                  .predicted_overhead_flops = 0.05,
                  .num_replayed_ops = 7};
  EXPECT_EQ(plan.brief_report(),
            "max_overhead: predicted peak 3.0 MiB (25.0% of plain), overhead 6.2% in seconds, "
            "5.0% in FLOPs, 7 replayed ops");
}

TEST(Plan, BriefReportSaysThatABoundIsNotMet) {
  const Plan plan{.policy = "max_peak_bytes", .feasible = false, .predicted_peak_bytes = 500};
  EXPECT_NE(plan.brief_report().find("500 B"), std::string::npos);
  EXPECT_NE(plan.brief_report().find("does not meet the bound"), std::string::npos);
}

}  // namespace
}  // namespace gradrecomp::plan
