#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/reports.h"

namespace gradrecomp::program {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Plain and one arm that differs from it.
std::vector<ArmResult> differing(bool plain_equal) {
  std::vector<ArmResult> results(2);
  results[0].arm = "plain";
  results[0].bitwise_equal = plain_equal;
  results[0].num_steps = 9;
  results[1].arm = "keep_all";
  results[1].bitwise_equal = false;
  return results;
}

TEST(BenchReport, AnArmDiffersWherePlainRepeatsItself) {
  const std::string table = bench_table({}, differing(true));
  EXPECT_THAT(table, HasSubstr("Plain against plain, 9 steps: equal.\n"));
  EXPECT_THAT(table, HasSubstr(" NO "));
  EXPECT_THAT(table, Not(HasSubstr("plain itself differs")));
  const auto json = nlohmann::json::parse(bench_json({}, differing(true)));
  EXPECT_EQ(json[0]["equal"], "yes");
  EXPECT_EQ(json[1]["equal"], "NO");
}

TEST(BenchReport, WherePlainItselfDiffersThatIsSaidInsteadOfNo) {
  const std::string table = bench_table({}, differing(false));
  EXPECT_THAT(table, HasSubstr("Plain against plain, 9 steps: plain itself differs.\n"));
  EXPECT_THAT(table, Not(HasSubstr(" NO ")));
  const auto json = nlohmann::json::parse(bench_json({}, differing(false)));
  EXPECT_EQ(json[0]["equal"], "plain itself differs");
  EXPECT_EQ(json[1]["equal"], "plain itself differs");
  EXPECT_EQ(json[1]["bitwise_equal"], false);
}

TEST(BenchReport, AnArmThatEqualsTheFirstPlainStepDoesSoWhateverOthersDo) {
  auto results = differing(false);
  results[1].bitwise_equal = true;
  EXPECT_EQ(equality(results[1], results[0]), "yes");
}

}  // namespace
}  // namespace gradrecomp::program
