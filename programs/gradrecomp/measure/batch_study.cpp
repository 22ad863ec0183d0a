#include "measure/batch_study.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "format.h"
#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "measure/training_step.h"
#include "progress.h"
#include "workload/workload.h"

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
  const auto batches = std::views::iota(plan::Index{1}, request.max_batch + 1);
  const auto fits = [&](std::int64_t batch) {
    return plain_peak_bytes(fit, batch) <= request.max_peak_bytes;
  };
  const std::int64_t below = std::ranges::partition_point(batches, fits) - batches.begin();
  const auto shown = std::max<std::int64_t>(below, 1);
  plan::BatchPlan plain{.batch = static_cast<plan::Index>(below)};
  plain.plan.predicted_peak_bytes = plain_peak_bytes(fit, shown);
  plain.plan.predicted_plain_peak_bytes = plain.plan.predicted_peak_bytes;
  plain.predicted_samples_per_second = samples_per_second(fit, shown, plain.plan);
  return plain;
}

plan::BatchFit fit_of(BatchStudy& study) {
  const auto profile = [&](std::int64_t batch) {
    auto options = study.questions.setting.workload;
    options.batch = batch;
    show_progress("building the model");
    Workload workload(options);
    return profile_step(workload);
  };
  const auto small_batch = study.questions.small_batch;
  const auto large_batch = study.questions.large_batch;
  const auto small = profile(small_batch);
  const auto large = profile(large_batch);
  study.description = small.origin.description;
  return {small.graph, static_cast<plan::Index>(small_batch), large.graph,
          static_cast<plan::Index>(large_batch)};
}

/// The batch that fits if peaks are proportional to it, and a smaller one in any case.
std::int64_t next_batch(const BatchTrial& trial, const plan::BatchRequest& request) {
  const double fitting =
      static_cast<double>(trial.batch) * share(request.max_peak_bytes, peak_bytes(trial));
  return std::min(trial.batch - 1, static_cast<std::int64_t>(fitting));
}

/// Takes real steps, plain ones without a `request`, where the answers predict some.
BatchTrial trial_of(const BatchQuestions& questions, const plan::BatchFit& fit, std::int64_t batch,
                    const std::optional<plan::BatchRequest>& request) {
  const auto most_bytes = std::max(kMostPlainBytes, questions.request.max_peak_bytes);
  const bool compare = request && plain_peak_bytes(fit, batch) <= most_bytes;
  auto trial = try_batch(questions.setting, batch, request, compare);
  trial.predicted_samples_per_second = samples_per_second(fit, batch, trial.plan);
  return trial;
}

/// The batch stays: where its plan takes more than predicted, it gets that.
void confirm_least_memory(BatchAnswer& answer, const BatchQuestions& questions,
                          const plan::BatchFit& fit) {
  const auto batch = answer.predicted.batch;
  plan::BatchRequest request{.max_peak_bytes = answer.predicted.plan.predicted_peak_bytes};
  for (int i = 0; i < 2 && batch > 0 && !answer.confirmed; ++i) {
    answer.trials.push_back(trial_of(questions, fit, batch, request));
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
             const std::function<BatchTrial(std::int64_t batch)>& try_at) {
  std::int64_t batch = answer.predicted.batch;
  while (batch > 0 && !answer.confirmed) {
    answer.trials.push_back(try_at(batch));
    answer.confirmed = is_within(answer.trials.back(), request);
    batch = next_batch(answer.trials.back(), request);
  }
}

BatchStudy make_batch_study(const BatchQuestions& questions) {
  BatchStudy study{.questions = questions};
  const auto fit = fit_of(study);
  show_progress("searching batch sizes");
  study.answers = predicted_answers(questions, fit);
  std::map<std::int64_t, BatchTrial> planned;  // several questions may have one answer
  const auto try_planned = [&](std::int64_t batch) {
    if (!planned.contains(batch)) {
      planned[batch] = trial_of(questions, fit, batch, questions.request);
    }
    return planned[batch];
  };
  const auto try_plain = [&](std::int64_t batch) {
    return trial_of(questions, fit, batch, std::nullopt);
  };
  for (auto& answer : study.answers) {
    if (answer.name == "least memory") {
      confirm_least_memory(answer, questions, fit);
    } else if (answer.name == "plain") {
      confirm(answer, questions.request, try_plain);
    } else {
      confirm(answer, questions.request, try_planned);
    }
  }
  clear_progress();
  return study;
}

}  // namespace gradrecomp::program
