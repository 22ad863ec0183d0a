#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "format.h"
#include "gradrecomp/plan/signature.h"
#include "report/json_report.h"
#include "report/report_table.h"
#include "report/reports.h"

namespace gradrecomp::program {
namespace {

constexpr std::size_t kMostPointsShown = 16;

ReportTable::Row row_of(std::string name, const plan::Plan& plan) {
  return {std::move(name),
          mebibytes(plan.predicted_peak_bytes),
          percent(predicted_share(plan)),
          proven_peak(plan, plan.predicted_plain_peak_bytes),
          percent(plan.predicted_overhead_seconds),
          percent(plan.predicted_overhead_flops),
          proven_overhead(plan),
          std::to_string(plan.num_replayed_ops),
          fmt::format("{:.0f}", 1e3 * plan.planning_seconds)};
}

std::string head(const Study& study) {
  const auto& graph = study.step.graph;
  return fmt::format(
      "{}\n{} ops, {} values, plain step {:.3f} s and {:.1f} GFLOP; overhead counts {}\n"
      "Peaks are predicted activation bytes of a step. Proven: no plan has a lower peak at this "
      "overhead,\nand proven +: none has less overhead at this peak.\n\n",
      study.step.origin.description, graph.ops.size(), graph.values.size(), graph.step_seconds,
      graph.step_flops / 1e9, to_string(study.cost));
}

std::string tail(const Study& study) {
  auto text =
      fmt::format("\nfront: {} points in {:.0f} ms", study.front.size(), 1e3 * study.front_seconds);
  if (study.front.size() > kMostPointsShown) {
    text += fmt::format(", {} shown; --front FILE writes all", kMostPointsShown);
  }
  return text + "\n" + study.chosen.brief_report() + "\n";
}

Json json_of_point(const plan::Plan& plan) {
  Json json{{"policy", plan.policy},
            {"overhead_seconds", plan.predicted_overhead_seconds},
            {"overhead_flops", plan.predicted_overhead_flops},
            {"peak_bytes", plan.predicted_peak_bytes},
            {"num_replayed_ops", plan.num_replayed_ops}};
  if (plan.proven_peak_bytes > 0) {
    json["proven_peak_bytes"] = plan.proven_peak_bytes;
    json["proven_overhead"] = plan.proven_overhead;
  }
  return json;
}

}  // namespace

std::string study_table(const Study& study) {
  ReportTable table({"plan", "peak", "of plain", "proven", "seconds +", "FLOPs +", "proven +",
                     "replays", "plan ms"});
  for (const auto& plan : study.policies) table.add(row_of(plan.policy, plan));
  const auto num_points = study.front.size();
  const auto num_shown = std::min(num_points, kMostPointsShown);
  for (std::size_t i = 0; i < num_shown; ++i) {  // the first and the last among them
    const auto place = num_shown == 1 ? 0 : i * (num_points - 1) / (num_shown - 1);
    table.add(row_of(fmt::format("front {}", place + 1), study.front[place]));
  }
  table.add(row_of(study.chosen.policy, study.chosen));
  return head(study) + table.text() + tail(study);
}

std::string study_json(const Study& study) {
  const auto& [graph, origin] = study.step;
  const Json json{{"format", "gradrecomp front"},
                  {"version", 1},
                  {"model", origin.description},
                  {"dtype", origin.dtype},
                  {"device", origin.device},
                  {"signature", plan::signature_text(graph.signature)},
                  {"cost", to_string(study.cost)},
                  {"num_ops", graph.ops.size()},
                  {"num_values", graph.values.size()},
                  {"plain_step_seconds", graph.step_seconds},
                  {"plain_step_flops", graph.step_flops},
                  {"plain_peak_bytes", study.chosen.predicted_plain_peak_bytes},
                  {"front_ms", 1e3 * study.front_seconds},
                  {"points", json_list(study.front, json_of_point)},
                  {"policies", json_list(study.policies, json_of_point)},
                  {"plan", json_of_point(study.chosen)}};
  return json_text(json);
}

}  // namespace gradrecomp::program
