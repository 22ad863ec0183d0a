#include <gtest/gtest.h>

#include "report/reports.h"

namespace gradrecomp::program {
namespace {

plan::Plan made_plan(std::string policy, double overhead, std::int64_t peak,
                     std::int64_t proven = 0) {
  plan::Plan plan{.policy = std::move(policy)};
  plan.predicted_peak_bytes = peak;
  plan.predicted_plain_peak_bytes = 1000;
  plan.predicted_overhead_seconds = overhead;
  plan.predicted_overhead_flops = overhead / 2;
  plan.proven_peak_bytes = proven;
  return plan;
}

/// Marks at one place, beyond the right edge, and near the line.
Study crowded_study() {
  Study study;
  study.step.origin.description = "a model of <many> \"layers\" & \xff, batch 4";
  study.chosen = made_plan("max_overhead", 0.05, 420, 300);
  study.policies = {made_plan("keep_all", 0, 1000),      made_plan("drop_all", 0.52, 1010),
                    made_plan("every_1", 0.335, 352),    made_plan("every_2", 0.336, 306),
                    made_plan("every_4", 0.336, 502),    made_plan("sqrt_n", 0.336, 502),
                    made_plan("chen_greedy", 0.43, 310), made_plan("pointwise_only", 0.06, 520),
                    made_plan("selective", 0.065, 545),  made_plan("nested", 0.8, 305),
                    made_plan("revolve_4", 1.2, 311)};
  for (int i = 0; i < 40; ++i) {
    const double overhead = 0.005 * i + 0.0001;
    const auto peak = static_cast<std::int64_t>(250 + 350 / (1 + 30 * overhead));
    study.front.push_back(made_plan("max_overhead", overhead, peak, peak * 4 / 5));
  }
  return study;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t num = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++num;
  return num;
}

TEST(FrontPicture, NamesEveryPolicyOnce) {
  const auto study = crowded_study();
  const auto picture = front_picture(study);
  for (const auto& plan : study.policies) EXPECT_EQ(count(picture, plan.policy), 1U) << plan.policy;
  EXPECT_NE(picture.find(">every_4, sqrt_n<"), std::string::npos)
      << "two at one place share a label";
  EXPECT_NE(picture.find(">drop_all (52%)<"), std::string::npos) << "beyond the right edge";
  EXPECT_NE(picture.find(">plan: 42.0% at 5.0%<"), std::string::npos);
}

TEST(FrontPicture, EscapesWhatXmlDoesNotTake) {
  EXPECT_NE(
      front_picture(crowded_study()).find("of &lt;many&gt; &quot;layers&quot; &amp; ?, batch"),
      std::string::npos);
}

TEST(FrontPicture, ShadesProvenPeaksWhereThereAreSome) {
  auto study = crowded_study();
  EXPECT_NE(front_picture(study).find("proven"), std::string::npos);
  for (auto& plan : study.front) plan.proven_peak_bytes = 0;
  EXPECT_EQ(front_picture(study).find("proven"), std::string::npos);
}

TEST(FrontPicture, CountsInTheCostModel) {
  auto study = crowded_study();
  study.cost = plan::CostModel::flops;
  const auto picture = front_picture(study);
  EXPECT_NE(picture.find(">drop_all<"), std::string::npos) << "26% of FLOPs is inside";
  EXPECT_NE(picture.find("plain step's FLOPs"), std::string::npos);
}

TEST(FrontPicture, IsDrawnOfAnEmptyFront) {
  EXPECT_NE(front_picture(Study{}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace gradrecomp::program
