#include "measure/batch_study.h"

#include <gtest/gtest.h>

#include "report/reports.h"

namespace gradrecomp::program {
namespace {

/// A model of 10 bytes a sample and 100 beside them; its last trial is written down.
BatchTrial trial_of(std::int64_t batch) {
  BatchTrial trial{.batch = batch, .bitwise_equal = true};
  trial.plan.keep = {1};
  trial.plan.predicted_peak_bytes = 100 + 10 * batch;
  return trial;
}

std::vector<std::int64_t> batches_tried(const BatchAnswer& answer) {
  std::vector<std::int64_t> batches;
  for (const auto& trial : answer.trials) batches.push_back(trial.batch);
  return batches;
}

BatchAnswer confirmed(plan::Index batch, const plan::BatchRequest& request) {
  BatchAnswer answer{.name = "largest batch", .predicted = {.batch = batch}};
  confirm(answer, request, trial_of);
  return answer;
}

TEST(BatchStudy, TakesThePredictedBatchWhereItHolds) {
  const auto answer = confirmed(40, {.max_peak_bytes = 500});
  EXPECT_TRUE(answer.confirmed);
  EXPECT_EQ(batches_tried(answer), std::vector<std::int64_t>{40});
}

TEST(BatchStudy, StepsDownWhereTheLineDoesNotHoldAndSaysSo) {
  const auto answer = confirmed(50, {.max_peak_bytes = 500});
  EXPECT_TRUE(answer.confirmed);
  EXPECT_EQ(batches_tried(answer), (std::vector<std::int64_t>{50, 41, 40}));
  const auto text = batch_table({.answers = {answer}});
  EXPECT_NE(text.find("largest batch: batch 50 was predicted"), std::string::npos) << text;
  EXPECT_NE(text.find("largest batch: batch 41 was tried"), std::string::npos) << text;
}

TEST(BatchStudy, EndsWhereNoBatchHolds) {
  const auto answer = confirmed(3, {.max_peak_bytes = 50});
  EXPECT_FALSE(answer.confirmed);
  EXPECT_EQ(answer.trials.back().batch, 1);
  const auto text = batch_table({.answers = {answer}});
  EXPECT_NE(text.find("largest batch: none holds"), std::string::npos) << text;
}

TEST(BatchStudy, TriesNothingWhereNothingIsPredicted) {
  EXPECT_TRUE(confirmed(0, {.max_peak_bytes = 500}).trials.empty());
}

}  // namespace
}  // namespace gradrecomp::program
