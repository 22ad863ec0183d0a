#include "measure/batch_study.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "measure/profiled_step.h"

namespace gradrecomp::program {
namespace {

/// A plain step to compare with may take this much, or what the plan may.
constexpr std::int64_t kMostPlainBytes = std::int64_t{4} << 30;

std::int64_t plain_peak_bytes(const plan::BatchFit& fit, std::int64_t batch) {
  const auto graph = fit.graph_at(static_cast<plan::Index>(batch));
  return plan::simulate(graph, plan::keep_all(graph)).peak_bytes;
}

double samples_per_second(const plan::BatchFit& fit, std::int64_t batch, const plan::Plan& plan) {
  const double seconds =
      fit.step_seconds_at(static_cast<plan::Index>(batch)) * (1 + plan.predicted_overhead_seconds);
  return seconds > 0 ? static_cast<double>(batch) / seconds : 0;
}

/// The largest batch whose plain step is within the request.
plan::BatchPlan largest_plain(const plan::BatchFit& fit, const plan::BatchRequest& request) {
  std::int64_t below = 0;
  std::int64_t above = request.max_batch + std::int64_t{1};
  while (above - below > 1) {
    const auto middle = std::min(2 * below + 1, below + (above - below) / 2);
    (plain_peak_bytes(fit, middle) <= request.max_peak_bytes ? below : above) = middle;
  }
  plan::BatchPlan plain{.batch = static_cast<plan::Index>(below)};
  plain.plan.predicted_peak_bytes = plain_peak_bytes(fit, std::max<std::int64_t>(below, 1));
  plain.plan.predicted_plain_peak_bytes = plain.plan.predicted_peak_bytes;
  plain.predicted_samples_per_second =
      samples_per_second(fit, std::max<std::int64_t>(below, 1), plain.plan);
  return plain;
}

plan::BatchFit fit_of(BatchStudy& study, Progress& progress) {
  const auto profile = [&](std::int64_t batch) {
    auto options = study.questions.setting.workload;
    options.batch = batch;
    progress.show("building the model");
    Workload workload(options);
    return profile_step(workload, {.gradients = study.questions.setting.gradients}, progress);
  };
  const auto small = profile(study.questions.small_batch);
  const auto large = profile(study.questions.large_batch);
  study.description = small.origin.description;
  return {small.graph, static_cast<plan::Index>(study.questions.small_batch), large.graph,
          static_cast<plan::Index>(study.questions.large_batch)};
}

std::int64_t peak_bytes(const BatchTrial& trial) {
  return std::max(trial.plan.predicted_peak_bytes, trial.measured_peak_bytes);
}

/// The batch that fits if peaks are proportional to it, and a smaller one in any case.
std::int64_t next_batch(const BatchTrial& trial, const plan::BatchRequest& request) {
  const double share = static_cast<double>(request.max_peak_bytes) /
                       static_cast<double>(std::max<std::int64_t>(peak_bytes(trial), 1));
  const auto fitting = static_cast<std::int64_t>(static_cast<double>(trial.batch) * share);
  return std::min(trial.batch - 1, fitting);
}

/// Takes real steps where the answers predict some.
class Trials {
 public:
  Trials(const BatchQuestions& questions, const plan::BatchFit& fit, Progress& progress)
      : questions_(questions), fit_(fit), progress_(progress) {}

  BatchTrial plain(std::int64_t batch) {
    return foreseen(try_plain(questions_.setting, batch, progress_));
  }

  BatchTrial planned(std::int64_t batch, const plan::BatchRequest& request) {
    const auto most_bytes = std::max(kMostPlainBytes, questions_.request.max_peak_bytes);
    const bool compare = plain_peak_bytes(fit_, batch) <= most_bytes;
    return foreseen(try_planned(questions_.setting, {batch, request, compare}, progress_));
  }

  /// Several questions may have one answer.
  const BatchTrial& planned_once(std::int64_t batch) {
    auto& trial = planned_[batch];
    if (trial.batch == 0) trial = planned(batch, questions_.request);
    return trial;
  }

 private:
  [[nodiscard]] BatchTrial foreseen(BatchTrial trial) const {
    trial.predicted_samples_per_second = samples_per_second(fit_, trial.batch, trial.plan);
    return trial;
  }

  const BatchQuestions& questions_;
  const plan::BatchFit& fit_;
  Progress& progress_;
  std::map<std::int64_t, BatchTrial> planned_;
};

/// The batch stays: where its plan takes more than predicted, it gets that.
void confirm_least_memory(BatchAnswer& answer, Trials& trials) {
  plan::BatchRequest request{.max_peak_bytes = answer.predicted.plan.predicted_peak_bytes};
  for (int i = 0; i < 2 && answer.predicted.batch > 0 && !answer.confirmed; ++i) {
    answer.trials.push_back(trials.planned(answer.predicted.batch, request));
    if (!answer.trials.back().problem.empty()) return;
    answer.confirmed = is_within(answer.trials.back(), request);
    request.max_peak_bytes = peak_bytes(answer.trials.back());
  }
}

std::vector<BatchAnswer> predicted_answers(const BatchQuestions& questions,
                                           const plan::BatchFit& fit) {
  const auto& request = questions.request;
  std::vector<BatchAnswer> answers{
      {.name = "plain", .predicted = largest_plain(fit, request)},
      {.name = "largest batch", .predicted = plan::largest_batch(fit, request)},
      {.name = "best throughput", .predicted = plan::best_throughput(fit, request)}};
  // Searches end at good plans, not at best ones: the other search may have found a larger batch.
  if (answers[2].predicted.batch > answers[1].predicted.batch) {
    answers[1].predicted = answers[2].predicted;
  }
  if (const auto rate = questions.min_samples_per_second) {
    answers.push_back({.name = "least memory",
                       .predicted = plan::least_memory(fit, {.min_samples_per_second = *rate})});
  }
  return answers;
}

}  // namespace

void confirm(BatchAnswer& answer, const plan::BatchRequest& request,
             const std::function<BatchTrial(std::int64_t batch)>& try_batch) {
  std::int64_t batch = answer.predicted.batch;
  while (batch > 0 && !answer.confirmed) {
    answer.trials.push_back(try_batch(batch));
    answer.confirmed = is_within(answer.trials.back(), request);
    batch = next_batch(answer.trials.back(), request);
  }
}

BatchStudy make_batch_study(const BatchQuestions& questions, Progress& progress) {
  BatchStudy study{.questions = questions};
  const auto fit = fit_of(study, progress);
  progress.show("searching batch sizes");
  study.answers = predicted_answers(questions, fit);
  Trials trials(study.questions, fit, progress);
  const auto& request = questions.request;
  auto& answers = study.answers;
  confirm(answers[0], request, [&](std::int64_t batch) { return trials.plain(batch); });
  for (const auto place : {1, 2}) {
    confirm(answers[place], request,
            [&](std::int64_t batch) { return trials.planned_once(batch); });
  }
  if (answers.size() > 3) confirm_least_memory(answers[3], trials);
  progress.clear();
  return study;
}

}  // namespace gradrecomp::program
