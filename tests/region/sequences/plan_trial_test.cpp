#include "region/sequences/plan_trial.h"

#include <gtest/gtest.h>

namespace gradrecomp::test {
namespace {

RecordedCosts times_of(double forward, double backward, double hooks, double replays) {
  return {.forward_seconds = forward,
          .backward_seconds = backward,
          .hook_seconds = hooks,
          .replay_seconds = replays,
          .release_seconds = 0.5,
          .num_replayed_ops = 4,
          .tape_bytes = 7};
}

TEST(PlanTrialTest, WithoutComparisonConcludesFromTheFirstSteps) {
  PlanTrial trial(/*compares=*/false);
  for (const double forward : {3.0, 9.0, 2.0}) {
    EXPECT_TRUE(trial.begin_step());
    EXPECT_FALSE(trial.conclude(0.05).has_value());
    trial.add(times_of(forward, 8, 3, 2));
  }
  const auto costs = trial.conclude(0.05);
  ASSERT_TRUE(costs.has_value());
  EXPECT_EQ(costs->step_seconds, 3 + 8 - 3);
  EXPECT_EQ(costs->recording_seconds, 1.5);  // in hooks and to free, as far as it is known
  EXPECT_EQ(costs->replay_seconds, 2);
  EXPECT_EQ(costs->num_replayed_ops, 4);
  EXPECT_EQ(costs->tape_bytes, 7);
  EXPECT_TRUE(trial.is_over());
  EXPECT_FALSE(trial.conclude(0.05).has_value());
}

/// Runs a trial that compares, recorded steps of `recorded` seconds forward and others of
/// `unrecorded`. The number of steps until it concludes.
int steps_until_it_concludes(double recorded, double unrecorded, double max_overhead) {
  PlanTrial trial(/*compares=*/true);
  for (int step = 1; step <= PlanTrial::kMostSteps; ++step) {
    if (trial.begin_step()) {
      trial.add(times_of(recorded, 6, 0, 0));
    } else {
      trial.add_unrecorded({unrecorded, 100});
    }
    if (const auto costs = trial.conclude(max_overhead)) {
      EXPECT_EQ(costs->recording_seconds, recorded - unrecorded + 0.5);
      EXPECT_EQ(costs->step_seconds, unrecorded + 6);
      return step;
    }
  }
  return -1;
}

TEST(PlanTrialTest, ComparesInTurnAfterTheFirstSteps) {
  EXPECT_EQ(steps_until_it_concludes(4.5, 4, 0.05),
            PlanTrial::kNumFirst + 2 * PlanTrial::kMostPairs);
}

TEST(PlanTrialTest, SeesEarlyThatRecordingCostsFarMoreThanTheBudget) {
  EXPECT_EQ(steps_until_it_concludes(6, 4, 0.05), PlanTrial::kNumFirst + 4);
}

TEST(PlanTrialTest, WhatElseRunsOnTheMachineIsNotTakenForRecording) {
  PlanTrial trial(/*compares=*/true);
  for (const double other_work : {0, 0, 0, 7, 9, 0, 8, 9, 0}) {
    if (trial.begin_step()) {
      trial.add(times_of(5 + other_work, 6, 0, 0));
    } else {
      trial.add_unrecorded({4 + other_work, 100});
    }
  }
  const auto costs = trial.conclude(0.05);
  ASSERT_TRUE(costs.has_value());
  EXPECT_EQ(costs->recording_seconds, 1 + 0.5);
}

TEST(PlanTrialTest, AShorterStepThatNothingLooksAtIsNotTakenForTheSame) {
  PlanTrial trial(/*compares=*/true);
  bool is_first = true;
  for (int step = 0; step < PlanTrial::kNumFirst + 2 * PlanTrial::kMostPairs; ++step) {
    if (trial.begin_step()) {
      trial.add(times_of(5, 6, 0, 0));
    } else {
      trial.add_unrecorded(is_first ? UnrecordedCosts{2, 50} : UnrecordedCosts{4, 100});
      is_first = false;
    }
  }
  const auto costs = trial.conclude(0.05);
  ASSERT_TRUE(costs.has_value());
  EXPECT_EQ(costs->recording_seconds, 1 + 0.5);
}

TEST(PlanTrialTest, RecordingNeverCostsLessThanNothing) {
  PlanTrial trial(/*compares=*/true);
  for (int step = 0; step < 3 + 2 * PlanTrial::kMostPairs; ++step) {
    if (trial.begin_step()) {
      trial.add(times_of(4, 6, 0, 0));
    } else {
      trial.add_unrecorded({5, 100});
    }
  }
  const auto costs = trial.conclude(0.05);
  ASSERT_TRUE(costs.has_value());
  EXPECT_EQ(costs->recording_seconds, 0.5);
  EXPECT_EQ(costs->step_seconds, 4 + 6);
}

TEST(PlanTrialTest, EndsWithoutConclusionWhereStepsAreOfNoUse) {
  PlanTrial trial(/*compares=*/true);
  for (int step = 0; step < PlanTrial::kMostSteps; ++step) {
    trial.begin_step();
    EXPECT_FALSE(trial.conclude(0.05).has_value());
  }
  EXPECT_FALSE(trial.is_over());
  EXPECT_TRUE(trial.begin_step());
  EXPECT_TRUE(trial.is_over());
}

}  // namespace
}  // namespace gradrecomp::test
