#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "format.h"
#include "report/json_report.h"
#include "report/report_table.h"
#include "report/reports.h"
#include "workload/device.h"

namespace gradrecomp::program {
namespace {

constexpr std::string_view kPlainDiffers = "plain itself differs";

double samples_per_second(const BenchSetting& setting, const ArmResult& result) {
  return result.step_seconds > 0 ? static_cast<double>(setting.workload.batch) / result.step_seconds
                                 : 0;
}

std::string head(const BenchSetting& setting, const ArmResult& plain) {
  return fmt::format(
      "{}\n{}\n"
      "Peaks are activation bytes of a step; total adds what is live before it; resident is what a "
      "step adds\nto {}; tape is the heap that its recording takes beside tensors.\n"
      "\"First step\" is the step that is profiled, its peak and its time over plain's, planning "
      "included.\n"
      "Times are paired ratios to plain: median (lowest..highest) over rounds of plain, arm, arm, "
      "plain ({}\nhere); A/A is plain to plain in the same rounds.\n"
      "Proven: no plan has a lower peak at this overhead; proven +: none has less overhead, in "
      "what\n"
      "its budget counts, at this peak.\n"
      "Plain against plain, {} steps: {}.\n\n",
      setting.description, setting_line(setting.workload),
      setting.workload.device == "cpu" ? "the pages that the process holds"
                                       : "what LibTorch's allocator holds of the device",
      setting.num_rounds, plain.num_steps, plain.bitwise_equal ? "equal" : kPlainDiffers);
}

/// Its peak and its time, both over plain's.
std::string first_step(const ArmResult& result, const ArmResult& plain) {
  if (result.first_step_peak_bytes == 0) return "-";
  return fmt::format("{} {:.2f}x",
                     percent(share(result.first_step_peak_bytes, plain.measured_peak_bytes)),
                     result.first_step_seconds / plain.step_seconds);
}

ReportTable::Row row_of(const BenchSetting& setting, const ArmResult& result,
                        const ArmResult& plain) {
  const auto& plan = result.plan;
  const auto plain_peak_bytes = plain.measured_peak_bytes;
  return {result.arm,
          mebibytes(result.measured_peak_bytes),
          percent(share(result.measured_peak_bytes, plain_peak_bytes)),
          difference(result.measured_peak_bytes, plan.predicted_peak_bytes),
          proven_peak(plan, plain_peak_bytes),
          mebibytes(result.total_peak_bytes),
          result.resident_peak_bytes ? mebibytes(*result.resident_peak_bytes) : "-",
          mebibytes(result.last_step.tape_bytes),
          first_step(result, plain),
          to_string(result.time_ratio),
          to_string(result.plain_ratio),
          fmt::format("{:.2f}", samples_per_second(setting, result)),
          percent(plan.predicted_overhead_flops),
          percent(plan.predicted_overhead_seconds),
          proven_overhead(plan),
          std::string(equality(result, plain)),
          fmt::format("{}/{}", result.last_step.num_replayed_ops, result.last_step.num_ops),
          fmt::format("{:.0f}", 1e3 * plan.planning_seconds)};
}

std::string offloads(const std::vector<ArmResult>& results) {
  std::string text;
  for (const ArmResult& result : results) {
    if (result.last_step.offloaded_bytes == 0) continue;
    text += fmt::format("Arm {}: {} a step went to host memory, planned stall {}.\n", result.arm,
                        mebibytes(result.last_step.offloaded_bytes),
                        percent(result.plan.predicted_stall));
  }
  return text;
}

std::string roundings(const std::vector<ArmResult>& results) {
  std::string text;
  for (const ArmResult& result : results) {
    if (!result.gradient_error) continue;
    if (result.last_step.rounded_bytes == 0) {
      text += fmt::format("Arm {}: nothing is rounded, as no such plan is better.\n", result.arm);
      continue;
    }
    text += fmt::format(
        "Arm {}: {} a step waited for backward rounded to bfloat16, which is planned to take {};\n"
        "gradients differ from plain's by {:.2g} of their norm at most. \"Equal\" speaks of loss "
        "and "
        "buffers.\n",
        result.arm, mebibytes(result.last_step.rounded_bytes),
        percent(result.plan.predicted_rounding), *result.gradient_error);
  }
  return text;
}

std::string warnings(const std::vector<ArmResult>& results) {
  std::string text;
  if (!results.front().bitwise_equal) {
    text += "Plain itself differs: its steps are not the same bit for bit, so no arm can be.\n";
  }
  for (const ArmResult& result : results) {
    if (!result.last_step.reason.empty()) {
      const std::string& reason = result.last_step.reason;
      text += fmt::format("Arm {}: the last step followed no plan: {}{}\n", result.arm, reason,
                          reason.ends_with('.') ? "" : ".");
    } else if (!result.followed_plan) {
      text += fmt::format("Arm {} left its plan.\n", result.arm);
    }
    if (!result.plan.feasible) {
      text += fmt::format("Arm {}: no plan meets the bound; this is the nearest.\n", result.arm);
    }
  }
  return text;
}

Json json_of_setting(const BenchSetting& setting) {
  const auto& workload = setting.workload;
  Json json{
      {"model", workload.model},         {"batch", workload.batch},
      {"device", workload.device},       {"dtype", workload.dtype},
      {"autocast", workload.autocast},   {"channels_last", workload.channels_last},
      {"cost", to_string(setting.cost)}, {"grads", workload.gradients},
      {"rounds", setting.num_rounds},    {"threads", at::get_num_threads()},
      {"seed", workload.seed},           {"data", workload.data.empty() ? "random" : workload.data},
      {"torch_version", TORCH_VERSION}};
  if (workload.image_size) json["image_size"] = *workload.image_size;
  if (workload.sequence) json["sequence"] = *workload.sequence;
  if (workload.layers.value_or(0) > 0) json["layers"] = *workload.layers;
  return json;
}

Json json_of_plan(const plan::Plan& plan) {
  Json json{{"predicted_peak_bytes", plan.predicted_peak_bytes},
            {"overhead_flops", plan.predicted_overhead_flops},
            {"plan_ms", 1e3 * plan.planning_seconds},
            {"predicted_replayed_ops", plan.num_replayed_ops},
            {"predicted_overhead_seconds", plan.predicted_overhead_seconds},
            {"predicted_stall", plan.predicted_stall},
            {"predicted_rounding", plan.predicted_rounding},
            {"feasible", plan.feasible}};
  if (plan.proven_peak_bytes > 0) {
    json["proven_peak_bytes"] = plan.proven_peak_bytes;
    json["proven_overhead"] = plan.proven_overhead;
  }
  return json;
}

Json json_of_times(const BenchSetting& setting, const ArmResult& result) {
  return {{"overhead_wall", result.time_ratio.median - 1},
          {"overhead_wall_low", result.time_ratio.low - 1},
          {"overhead_wall_high", result.time_ratio.high - 1},
          {"plain_to_plain", result.plain_ratio.median - 1},
          {"plain_to_plain_low", result.plain_ratio.low - 1},
          {"plain_to_plain_high", result.plain_ratio.high - 1},
          {"step_seconds", result.step_seconds},
          {"first_step_seconds", result.first_step_seconds},
          {"samples_per_second", samples_per_second(setting, result)}};
}

Json json_of(const BenchSetting& setting, const ArmResult& result, const ArmResult& plain) {
  Json json{{"arm", result.arm},
            {"plain_peak_bytes", plain.measured_peak_bytes},
            {"measured_peak_bytes", result.measured_peak_bytes},
            {"first_step_peak_bytes", result.first_step_peak_bytes},
            {"total_peak_bytes", result.total_peak_bytes},
            {"reserved_peak_bytes", result.reserved_peak_bytes},
            {"num_alloc_retries", result.num_alloc_retries},
            {"bitwise_equal", result.bitwise_equal},
            {"equal", equality(result, plain)},
            {"num_ops", result.last_step.num_ops},
            {"num_replayed_ops", result.last_step.num_replayed_ops},
            {"num_substituted_ops", result.last_step.num_substituted_ops},
            {"offloaded_bytes", result.last_step.offloaded_bytes},
            {"rounded_bytes", result.last_step.rounded_bytes},
            {"tape_bytes", result.last_step.tape_bytes},
            {"num_compared_steps", result.num_steps},
            {"followed_plan", result.followed_plan}};
  if (result.gradient_error) json["gradient_error"] = *result.gradient_error;
  if (result.resident_peak_bytes) json["resident_peak_bytes"] = *result.resident_peak_bytes;
  for (const Json& part :
       {json_of_setting(setting), json_of_plan(result.plan), json_of_times(setting, result)}) {
    json.update(part);
  }
  return json;
}

}  // namespace

std::string_view equality(const ArmResult& arm, const ArmResult& plain) {
  if (arm.bitwise_equal) return "yes";
  return plain.bitwise_equal ? kDifferent : kPlainDiffers;
}

std::string bench_table(const BenchSetting& setting, const std::vector<ArmResult>& results) {
  ReportTable table({"arm", "peak", "of plain", "predicted", "proven", "total", "resident", "tape",
                     "first step", "time", "A/A", "samples/s", "FLOPs +", "planned s +", "proven +",
                     "equal", "replays/ops", "plan ms"});
  for (const ArmResult& result : results) table.add(row_of(setting, result, results.front()));
  return head(setting, results.front()) + table.text() + offloads(results) + roundings(results) +
         warnings(results);
}

std::string bench_json(const BenchSetting& setting, const std::vector<ArmResult>& results) {
  return json_text(json_list(
      results, [&](const ArmResult& result) { return json_of(setting, result, results.front()); }));
}

}  // namespace gradrecomp::program
