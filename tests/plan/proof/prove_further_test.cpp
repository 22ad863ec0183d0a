#include "gradrecomp/plan/prove_further.h"

#include <gtest/gtest.h>

#include <string>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/plan_file.h"
#include "support/plan/recorded_graphs.h"
#include "support/plan/two_devices.h"

namespace gradrecomp::plan {
namespace {

/// All that `plan` says, but for what is proven of it.
std::string text_without_proofs(Plan plan) {
  plan.proven_peak_bytes = 0;
  plan.proven_overhead = 0;
  plan.peak_proof = {};
  plan.overhead_proof = {};
  return plan_text({plan});
}

// Steps wait for plans, and need not wait for what makes none better.
TEST(ProveFurther, PlansAreMadeWithoutIt) {
  const Graph graph = test::recorded_graph("fno");
  const Plan made = make_plan(graph, {.max_overhead = 0.2});
  EXPECT_FALSE(made.peak_proof.by_ops);
  EXPECT_GT(made.proven_peak_bytes, 0);
}

TEST(ProveFurther, RaisesThePeakUnderABudgetOfOverheadAndNothingElse) {
  const Graph graph = test::recorded_graph("fno");
  const Plan made = make_plan(graph, {.max_overhead = 0.2});
  const Plan proven = prove_further(graph, made);
  EXPECT_GT(proven.proven_peak_bytes, made.proven_peak_bytes);
  EXPECT_LE(proven.proven_peak_bytes, made.predicted_peak_bytes);
  EXPECT_EQ(proven.proven_overhead, made.proven_overhead);
  EXPECT_EQ(text_without_proofs(proven), text_without_proofs(made));
}

// By lines alone, almost five are open.
TEST(ProveFurther, LeavesLessThanTwoPointsOfThePlainPeakOpen) {
  const Graph graph = test::recorded_graph("fno");
  const auto open = [](const Plan& plan) {
    return static_cast<double>(plan.predicted_peak_bytes - plan.proven_peak_bytes) /
           static_cast<double>(plan.predicted_plain_peak_bytes);
  };
  const Plan made = make_plan(graph, {.max_overhead = 0.1});
  EXPECT_GT(open(made), 0.04);
  EXPECT_LT(open(prove_further(graph, made)), 0.02);
}

TEST(ProveFurther, RaisesTheOverheadUnderABudgetOfBytesAndNothingElse) {
  const Graph graph = test::recorded_graph("fno");
  const auto plain = make_plan(graph, {.policy = "keep_all"}).predicted_plain_peak_bytes;
  const Plan made = make_plan(graph, {.max_peak_bytes = plain * 42 / 100});
  const Plan proven = prove_further(graph, made);
  EXPECT_GT(proven.proven_overhead, made.proven_overhead);
  EXPECT_LE(proven.proven_overhead, made.predicted_overhead_seconds);
  EXPECT_EQ(proven.proven_peak_bytes, made.proven_peak_bytes);
  EXPECT_EQ(text_without_proofs(proven), text_without_proofs(made));
}

TEST(ProveFurther, LeavesFixedPoliciesAndSeveralDevicesAsTheyAre) {
  Graph graph = test::recorded_graph("fno");
  const Plan fixed = make_plan(graph, {.policy = "every_2"});
  EXPECT_EQ(plan_text({prove_further(graph, fixed)}), plan_text({fixed}));
  graph = test::random_two_devices(3);
  const Plan made = make_plan(graph, {.max_overhead = 0.2});
  EXPECT_EQ(plan_text({prove_further(graph, made)}), plan_text({made}));
}

}  // namespace
}  // namespace gradrecomp::plan
