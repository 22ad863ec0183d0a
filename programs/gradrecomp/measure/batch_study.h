#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gradrecomp/plan/batch_plan.h"
#include "measure/batch_trial.h"

namespace gradrecomp::program {

/// What is asked of one model over all batch sizes.
struct BatchQuestions {
  TrialSetting setting = {};
  std::int64_t small_batch = 2;  ///< one step is profiled at each of these two
  std::int64_t large_batch = 4;
  plan::BatchRequest request = {};
  std::optional<double> min_samples_per_second = {};  ///< unset: least memory is not asked for
};

/// The answer to one question.
struct BatchAnswer {
  std::string name = {};
  plan::BatchPlan predicted = {};       ///< its batch is 0 where no batch will do
  std::vector<BatchTrial> trials = {};  ///< the last one is the answer, if it is within the request
  bool confirmed = false;               ///< it is
};

struct BatchStudy {
  BatchQuestions questions = {};
  std::string description = {};  ///< of the smaller step profiled
  /// "plain", "largest batch", "best throughput" and, if asked for, "least memory".
  std::vector<BatchAnswer> answers = {};
};

/// Tries the predicted batch of `answer`, then smaller ones, until one is within `request`.
void confirm(BatchAnswer& answer, const plan::BatchRequest& request,
             const std::function<BatchTrial(std::int64_t batch)>& try_at);

/// Profiles two steps, answers the questions for all batch sizes, and confirms each answer by real
/// steps, at smaller batches where it does not hold.
/// Throws:  BadInput if the model cannot be built at these batch sizes;
///          std::invalid_argument if its two steps differ in more than sizes.
BatchStudy make_batch_study(const BatchQuestions& questions);

}  // namespace gradrecomp::program
