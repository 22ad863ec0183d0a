#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>

#include "format.h"
#include "report/json_report.h"
#include "report/report_table.h"
#include "report/reports.h"
#include "workload/device.h"

namespace gradrecomp::program {
namespace {

std::string head(const BatchStudy& study) {
  const auto& [setting, small, large, request, rate] = study.questions;
  auto text = fmt::format("{}; and batch {}\n{}\nActivations may take {}", study.description, large,
                          setting_line(setting.workload), mebibytes(request.max_peak_bytes));
  if (request.max_overhead) {
    text += fmt::format(", replays {} of the {} of a plain step", percent(*request.max_overhead),
                        to_string(request.cost));
  }
  if (rate) text += fmt::format("; least memory: at {:g} samples/s", *rate);
  return text +
         ".\nPeaks are activation bytes of a step; equal: loss, gradients and buffers are those of "
         "the plain step, bit for bit.\n\n";
}

std::string gain(std::int64_t batch, std::int64_t plain_batch) {
  if (plain_batch == 0) return "";
  return fmt::format("{:.2f}x", share(batch, plain_batch));
}

ReportTable::Row predicted_row(const BatchAnswer& answer, std::int64_t plain_batch) {
  const auto& [batch, plan, rate] = answer.predicted;
  if (batch == 0) return {answer.name, "none"};
  return {answer.name,
          std::to_string(batch),
          gain(batch, plain_batch),
          mebibytes(plan.predicted_peak_bytes),
          percent(predicted_share(plan)),
          percent(plan.predicted_overhead_seconds),
          percent(plan.predicted_overhead_flops),
          fmt::format("{:.2f}", rate)};
}

std::string predicted_table(const BatchStudy& study) {
  ReportTable table({"predicted", "batch", "of plain", "peak", "of its plain", "seconds +",
                     "FLOPs +", "samples/s"});
  const auto plain_batch = study.answers.front().predicted.batch;
  for (const auto& answer : study.answers) table.add(predicted_row(answer, plain_batch));
  return table.text();
}

std::string equality(const BatchTrial& trial) {
  if (!trial.bitwise_equal) return "-";
  return *trial.bitwise_equal ? "yes" : "NO";
}

/// Peaks of a plain step are predicted from the other batch sizes, as no plan is made at its own.
std::int64_t predicted_peak_bytes(const BatchAnswer& answer) {
  const auto& plan = answer.trials.back().plan;
  return plan.keep.empty() ? answer.predicted.plan.predicted_peak_bytes : plan.predicted_peak_bytes;
}

ReportTable::Row measured_row(const BatchAnswer& answer, std::int64_t plain_batch) {
  const auto& trial = answer.trials.back();
  const auto& plan = trial.plan;
  return {answer.name,
          std::to_string(trial.batch),
          gain(trial.batch, plain_batch),
          mebibytes(trial.measured_peak_bytes),
          difference(trial.measured_peak_bytes, predicted_peak_bytes(answer)),
          percent(plan.predicted_overhead_seconds),
          percent(plan.predicted_overhead_flops),
          fmt::format("{:.2f}", trial.samples_per_second),
          fmt::format("{:.2f}", trial.predicted_samples_per_second),
          equality(trial)};
}

std::int64_t measured_batch(const BatchAnswer& answer) {
  return answer.confirmed ? answer.trials.back().batch : 0;
}

std::string measured_table(const BatchStudy& study) {
  if (std::ranges::none_of(study.answers, &BatchAnswer::confirmed)) return "";
  ReportTable table({"real steps", "batch", "of plain", "peak", "predicted", "seconds +", "FLOPs +",
                     "samples/s", "predicted", "equal"});
  const auto plain_batch = measured_batch(study.answers.front());
  for (const auto& answer : study.answers) {
    if (answer.confirmed) table.add(measured_row(answer, plain_batch));
  }
  return table.text();
}

std::string refusal(const BatchAnswer& answer, const BatchTrial& trial) {
  if (!trial.problem.empty()) return fmt::format("{}: {}\n", answer.name, trial.problem);
  return fmt::format("{}: batch {} was {}, but takes {} there.\n", answer.name, trial.batch,
                     trial.batch == answer.predicted.batch ? "predicted" : "tried",
                     mebibytes(peak_bytes(trial)));
}

/// Why what was measured is not what was predicted.
std::string note(const BatchAnswer& answer) {
  if (answer.predicted.batch == 0) {
    return fmt::format("{}: no batch will do; the nearest takes {} at {:.2f} samples/s.\n",
                       answer.name, mebibytes(answer.predicted.plan.predicted_peak_bytes),
                       answer.predicted.predicted_samples_per_second);
  }
  std::string text;
  const auto num_refused = answer.trials.size() - (answer.confirmed ? 1 : 0);
  for (std::size_t i = 0; i < num_refused; ++i) text += refusal(answer, answer.trials[i]);
  if (!answer.confirmed) text += fmt::format("{}: none holds in real steps.\n", answer.name);
  return text;
}

bool is_compared(const BatchAnswer& answer) {
  const bool is_planned = answer.confirmed && !answer.trials.back().plan.keep.empty();
  return !is_planned || answer.trials.back().bitwise_equal.has_value();
}

std::string notes(const BatchStudy& study) {
  std::string text;
  for (const auto& answer : study.answers) text += note(answer);
  if (!std::ranges::all_of(study.answers, is_compared)) {
    text += "equal -: not compared, as the plain step would take too much.\n";
  }
  return text;
}

Json json_of_plan(const plan::Plan& plan) {
  return {{"predicted_peak_bytes", plan.predicted_peak_bytes},
          {"plain_peak_bytes", plan.predicted_plain_peak_bytes},
          {"overhead_seconds", plan.predicted_overhead_seconds},
          {"overhead_flops", plan.predicted_overhead_flops}};
}

Json json_of_trial(const BatchTrial& trial) {
  Json json{{"batch", trial.batch}};
  if (!trial.plan.keep.empty()) json.update(json_of_plan(trial.plan));
  json["measured_peak_bytes"] = trial.measured_peak_bytes;
  json["predicted_samples_per_second"] = trial.predicted_samples_per_second;
  json["samples_per_second"] = trial.samples_per_second;
  json["bitwise_equal"] = trial.bitwise_equal ? Json(*trial.bitwise_equal) : Json();
  return json;
}

Json json_of_answer(const BatchAnswer& answer) {
  Json predicted{{"batch", answer.predicted.batch}};
  predicted.update(json_of_plan(answer.predicted.plan));
  predicted["samples_per_second"] = answer.predicted.predicted_samples_per_second;
  return {{"answer", answer.name},
          {"predicted", predicted},
          {"trials", json_list(answer.trials, json_of_trial)},
          {"confirmed_batch", measured_batch(answer)}};
}

}  // namespace

std::string batch_table(const BatchStudy& study) {
  return head(study) + predicted_table(study) + '\n' + measured_table(study) + notes(study);
}

std::string batch_json(const BatchStudy& study) {
  const auto& [setting, small, large, request, rate] = study.questions;
  Json json{{"model", setting.workload.model},
            {"device", setting.workload.device},
            {"dtype", setting.workload.dtype},
            {"profiled_batches", {small, large}},
            {"max_peak_bytes", request.max_peak_bytes},
            {"cost", to_string(request.cost)},
            {"grads", setting.workload.gradients},
            {"threads", at::get_num_threads()},
            {"torch_version", TORCH_VERSION}};
  if (request.max_overhead) json["max_overhead"] = *request.max_overhead;
  if (rate) json["min_samples_per_second"] = *rate;
  json["answers"] = json_list(study.answers, json_of_answer);
  return json_text(json);
}

}  // namespace gradrecomp::program
