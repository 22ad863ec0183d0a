#include "gradrecomp/report.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "plan/simulator/replay_cost.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

void add(StageRow& total, const StageRow& row) {
  total.saved_bytes += row.saved_bytes;
  total.kept_bytes += row.kept_bytes;
  total.output_bytes += row.output_bytes;
  total.forward_flops += row.forward_flops;
  total.forward_seconds += row.forward_seconds;
  total.replay_seconds += row.replay_seconds;
}

void print(std::ostream& out, const StageRow& row, int name_width) {
  out << std::left << std::setw(name_width) << row.name << std::right << std::fixed
      << std::setprecision(2) << std::setw(12) << row.saved_bytes / kMiB << std::setw(12)
      << row.kept_bytes / kMiB << std::setw(12) << row.output_bytes / kMiB << std::setprecision(3)
      << std::setw(12) << row.forward_flops / 1e9 << std::setprecision(2) << std::setw(12)
      << row.forward_seconds * 1e3 << std::setw(12) << row.replay_seconds * 1e3 << '\n';
}

// Stages whose values a later stage reads hand them on.
std::vector<std::uint8_t> crosses_stages(const plan::Graph& graph) {
  std::vector<std::uint8_t> crosses(graph.values.size(), 0);
  for (const plan::Op& op : graph.ops) {
    for (const plan::Index input : op.inputs) {
      const plan::Index producer = graph.values[input].producer;
      if (producer >= 0 && graph.ops[producer].stage != op.stage) crosses[input] = 1;
    }
  }
  return crosses;
}

/// Whether a replay may ever want what `op` makes, so that its time counts.
bool may_be_replayed(const plan::Graph& graph, const plan::Op& op) {
  return std::ranges::any_of(op.outputs, [&](plan::Index v) { return !graph.values[v].must_keep; });
}

}  // namespace

std::vector<StageRow> stage_rows(const plan::Graph& graph, const plan::Plan& plan) {
  std::vector<StageRow> rows(graph.stages.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].name = graph.stages[i].name;
  for (const plan::Op& op : graph.ops) {
    StageRow& row = rows[op.stage];
    row.forward_flops += op.flops;
    row.forward_seconds += op.forward_seconds;
    row.replay_seconds += may_be_replayed(graph, op) ? plan::least_replay_seconds(op) : 0;
  }
  const auto crosses = crosses_stages(graph);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const plan::Value& value = graph.values[i];
    if (value.producer < 0 || value.overwritten_by >= 0) continue;
    StageRow& row = rows[graph.ops[value.producer].stage];
    if (value.saved) row.saved_bytes += value.bytes;
    if (plan.keep[i] || value.must_keep) row.kept_bytes += value.bytes;
    if (crosses[i]) row.output_bytes += value.bytes;
  }
  return rows;
}

std::string stage_table(const plan::Graph& graph, const plan::Plan& plan) {
  const auto rows = stage_rows(graph, plan);
  StageRow total{.name = "total"};
  std::size_t name_width = total.name.size();
  for (const StageRow& row : rows) {
    add(total, row);
    name_width = std::max(name_width, row.name.size());
  }
  const int width = static_cast<int>(name_width) + 2;
  std::ostringstream out;
  out << std::left << std::setw(width) << "stage" << std::right << std::setw(12) << "saved MiB"
      << std::setw(12) << "kept MiB" << std::setw(12) << "output MiB" << std::setw(12) << "GFLOP"
      << std::setw(12) << "forward ms" << std::setw(12) << "replay ms" << '\n';
  for (const StageRow& row : rows) print(out, row, width);
  print(out, total, width);
  return out.str();
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
