#include "plan/op_program/open_step.h"

#include <gtest/gtest.h>

namespace gradrecomp::plan {
namespace {

/// Two visits, of which the first asks for two values and the second for one of these and another.
OpenSteps two_visits() {
  OpenSteps steps;
  steps.step.num_visits = 2;
  for (const Visits asking : {bit(1), static_cast<Visits>(bit(1) | bit(2)), bit(2)}) {
    steps.step.fates.push_back(kUndecided);
    steps.step.asking.push_back(asking);
    steps.step.again.push_back(0);
  }
  Course course;
  course.events = {0, 10, 20};
  steps.courses.push_back(course);
  return steps;
}

TEST(OpenSteps, WhatMergedVisitsBothAskForIsStillMadeTwice) {
  OpenSteps steps = two_visits();
  steps.merge_with_next(1);
  EXPECT_EQ(steps.step.num_visits, 1);
  EXPECT_EQ(steps.courses.front().events[1], 20);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_EQ(steps.step.asking[j], bit(1)) << j;
    EXPECT_EQ(steps.step.again[j], j == 1 ? bit(1) : 0) << j;
  }
}

TEST(OpenSteps, WhatTheFirstOfMergedVisitsLeavesBehindIsLeftByBoth) {
  OpenSteps steps = two_visits();
  steps.step.fates[0] = 1;
  steps.merge_with_next(1);
  EXPECT_EQ(steps.step.fates[0], 1);
  EXPECT_EQ(steps.step.again[0], 0);
}

TEST(OpenSteps, AVisitThatIsForgottenLeavesTheOthersTheirNumbers) {
  OpenSteps steps = two_visits();
  steps.step.again[1] = bit(2);
  steps.step.fates[2] = 2;
  steps.forget_visit(1);
  EXPECT_EQ(steps.step.num_visits, 1);
  EXPECT_EQ(steps.step.asking[1], bit(1));
  EXPECT_EQ(steps.step.again[1], bit(1));
  EXPECT_EQ(steps.step.fates[2], 1);
}

}  // namespace
}  // namespace gradrecomp::plan
