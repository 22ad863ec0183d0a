#include "gradrecomp/plan/graph_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <utility>
#include <vector>

#include "file_replacement.h"
#include "gradrecomp/plan/signature.h"
#include "json_field.h"
#include "json_text.h"
#include "origin_json.h"
#include "plan/error.h"
#include "plan/graph/demands.h"
#include "text_file.h"

namespace gradrecomp::plan {
namespace {

constexpr std::string_view kFormat = "gradrecomp graph";
constexpr std::int64_t kVersion = 1;
constexpr Bounds kAnyWhole{.least = std::numeric_limits<std::int64_t>::min()};

// In the order of EventKind.
const std::vector<std::string_view>& event_names() {
  static const std::vector<std::string_view> names{"run_op", "save",   "death",   "outside",
                                                   "seal",   "demand", "release", "pass_end"};
  return names;
}

const std::vector<std::string_view>& value_columns() {
  static const std::vector<std::string_view> names{
      "bytes", "producer", "overwrites", "overwritten_by", "must_keep", "snapshot", "saved"};
  return names;
}

/// Those that steps have where values may be rounded.
const std::vector<std::string_view>& rounding_columns() {
  static const std::vector<std::string_view> names{"rounds", "exact"};
  return names;
}

const std::vector<std::string_view>& op_columns() {
  static const std::vector<std::string_view> names{
      "name",           "stage", "inputs",        "outputs",         "forward_seconds",
      "replay_seconds", "flops", "bytes_moved",   "transient_bytes", "is_part",
      "by_kernel",      "joins", "joined_seconds"};
  return names;
}

const std::vector<std::string_view>& event_columns() {
  static const std::vector<std::string_view> names{"kind", "id", "net_bytes", "peak_bytes"};
  return names;
}

// Columns repeat no member's name a row, and are what data frames are made from. A member more in
// Value, Op or Event does not compile here, so that none is forgotten. Where all is on one device,
// the columns that tell devices apart are left out.
constexpr std::string_view kDevice = "device";
constexpr std::string_view kFurtherTransientBytes = "further_transient_bytes";

bool may_round(const std::vector<Value>& values) {
  return std::ranges::any_of(values, [](const Value& v) { return v.rounds || v.exact; });
}

Json columns_of(const std::vector<Value>& values, bool several_devices) {
  Json columns;
  const bool rounds_any = may_round(values);
  for (const auto name : value_columns()) {
    columns[name] = Json::array();
  }
  if (several_devices) columns[kDevice] = Json::array();
  for (const auto& [bytes, producer, overwrites, overwritten_by, must_keep, snapshot, saved, device,
                    rounds, exact] : values) {
    columns["bytes"].push_back(bytes);
    columns["producer"].push_back(producer);
    columns["overwrites"].push_back(overwrites);
    columns["overwritten_by"].push_back(overwritten_by);
    columns["must_keep"].push_back(must_keep);
    columns["snapshot"].push_back(snapshot);
    columns["saved"].push_back(saved);
    if (several_devices) columns[kDevice].push_back(device);
    if (rounds_any) {
      columns["rounds"].push_back(rounds);
      columns["exact"].push_back(exact);
    }
  }
  return columns;
}

Json columns_of(const std::vector<Op>& ops, bool several_devices) {
  Json columns;
  for (const auto name : op_columns()) {
    columns[name] = Json::array();
  }
  if (several_devices) columns[kFurtherTransientBytes] = Json::array();
  for (const auto& [name, stage, inputs, outputs, forward_seconds, replay_seconds, flops,
                    bytes_moved, transient_bytes, further_transient_bytes, is_part, by_kernel,
                    joins, joined_seconds] : ops) {
    columns["name"].push_back(name);
    columns["stage"].push_back(stage);
    columns["inputs"].push_back(inputs);
    columns["outputs"].push_back(outputs);
    columns["forward_seconds"].push_back(forward_seconds);
    columns["replay_seconds"].push_back(replay_seconds);
    columns["flops"].push_back(flops);
    columns["bytes_moved"].push_back(bytes_moved);
    columns["transient_bytes"].push_back(transient_bytes);
    if (several_devices) columns[kFurtherTransientBytes].push_back(further_transient_bytes);
    columns["is_part"].push_back(is_part);
    columns["by_kernel"].push_back(by_kernel);
    columns["joins"].push_back(joins);
    columns["joined_seconds"].push_back(joined_seconds);
  }
  return columns;
}

Json columns_of(const std::vector<Event>& events, bool several_devices) {
  Json columns;
  for (const auto name : event_columns()) columns[name] = Json::array();
  if (several_devices) columns[kDevice] = Json::array();
  for (const auto& [kind, id, net_bytes, peak_bytes, device] : events) {
    columns["kind"].push_back(event_names()[static_cast<std::size_t>(kind)]);
    columns["id"].push_back(id);
    columns["net_bytes"].push_back(net_bytes);
    columns["peak_bytes"].push_back(peak_bytes);
    if (several_devices) columns[kDevice].push_back(device);
  }
  return columns;
}

Json document(const SavedGraph& saved) {
  const auto& [stages, values, ops, events, step_seconds, step_flops, signature, devices] =
      saved.graph;
  const bool several_devices = !devices.empty();
  Json names = Json::array();
  for (const auto& [name] : stages) names.push_back(name);
  Json file = {{"format", kFormat},
               {"version", kVersion},
               {"origin", json_of(saved.origin)},
               {"signature", signature_text(signature)},
               {"step_seconds", step_seconds},
               {"step_flops", step_flops},
               {"stages", names},
               {"values", columns_of(values, several_devices)},
               {"ops", columns_of(ops, several_devices)},
               {"events", columns_of(events, several_devices)}};
  if (several_devices) file["devices"] = devices;
  return file;
}

/// The number of rows of columns that have these names, and one more unless that is empty.
std::size_t num_rows(const Field& columns, std::vector<std::string_view> names,
                     std::string_view more) {
  if (!more.empty()) names.push_back(more);
  columns.expect_members(names);
  const auto num = columns[names.front()].size();
  for (const auto name : names) columns[name].expect_size(num);
  return num;
}

// validate() checks every index further than its type; here they only must not wrap.
Index index_at(const Field& column, std::size_t row) {
  return column[row].index(-1, std::numeric_limits<Index>::max());
}

std::vector<Value> values_of(const Field& columns, bool several_devices) {
  const auto more = several_devices ? kDevice : "";
  const bool rounds_any = columns.has(rounding_columns().front());
  auto names = value_columns();
  if (rounds_any) names.insert(names.end(), rounding_columns().begin(), rounding_columns().end());
  std::vector<Value> values(num_rows(columns, std::move(names), more));
  for (std::size_t row = 0; row < values.size(); ++row) {
    values[row] = {.bytes = columns["bytes"][row].whole(),
                   .producer = index_at(columns["producer"], row),
                   .overwrites = index_at(columns["overwrites"], row),
                   .overwritten_by = index_at(columns["overwritten_by"], row),
                   .must_keep = columns["must_keep"][row].flag(),
                   .snapshot = columns["snapshot"][row].flag(),
                   .saved = columns["saved"][row].flag()};
    if (several_devices) values[row].device = index_at(columns[kDevice], row);
    if (!rounds_any) continue;
    values[row].rounds = columns["rounds"][row].flag();
    values[row].exact = columns["exact"][row].flag();
  }
  return values;
}

std::vector<std::int64_t> wholes_of(const Field& list) {
  std::vector<std::int64_t> wholes;
  for (std::size_t i = 0; i < list.size(); ++i) wholes.push_back(list[i].whole());
  return wholes;
}

std::vector<Op> ops_of(const Field& columns, Index num_values, bool several_devices) {
  const auto more = several_devices ? kFurtherTransientBytes : "";
  std::vector<Op> ops(num_rows(columns, op_columns(), more));
  for (std::size_t row = 0; row < ops.size(); ++row) {
    ops[row] = {.name = columns["name"][row].text(),
                .stage = index_at(columns["stage"], row),
                .inputs = columns["inputs"][row].indices(num_values),
                .outputs = columns["outputs"][row].indices(num_values),
                .forward_seconds = columns["forward_seconds"][row].amount(),
                .replay_seconds = columns["replay_seconds"][row].amount(),
                .flops = columns["flops"][row].amount(),
                .bytes_moved = columns["bytes_moved"][row].amount(),
                .transient_bytes = columns["transient_bytes"][row].whole(),
                .is_part = columns["is_part"][row].flag(),
                .by_kernel = columns["by_kernel"][row].flag(),
                .joins = columns["joins"][row].flag(),
                .joined_seconds = columns["joined_seconds"][row].amount()};
    if (several_devices) {
      ops[row].further_transient_bytes = wholes_of(columns[kFurtherTransientBytes][row]);
    }
  }
  return ops;
}

std::vector<Event> events_of(const Field& columns, bool several_devices) {
  const auto more = several_devices ? kDevice : "";
  std::vector<Event> events(num_rows(columns, event_columns(), more));
  for (std::size_t row = 0; row < events.size(); ++row) {
    events[row] = {.kind = static_cast<EventKind>(columns["kind"][row].choice(event_names())),
                   .id = index_at(columns["id"], row),
                   .net_bytes = columns["net_bytes"][row].whole(kAnyWhole),
                   .peak_bytes = columns["peak_bytes"][row].whole(kAnyWhole)};
    if (several_devices) events[row].device = index_at(columns[kDevice], row);
  }
  return events;
}

std::vector<std::string> texts_of(const Field& list) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list[i].text());
  return texts;
}

std::vector<Stage> stages_of(const Field& names) {
  std::vector<Stage> stages(names.size());
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i].name = names[i].text();
  return stages;
}

/// validate() sees no more than what planning must not stumble over.
void check_saved(const Graph& graph) {
  const std::vector<bool> saved = saved_values(graph);
  for (std::size_t v = 0; v < saved.size(); ++v) {
    if (graph.values[v].saved == saved[v]) continue;
    raise({"Graph", "saved of value " + std::to_string(v), saved[v] ? "false" : "true",
           std::string(saved[v] ? "true" : "false") + " as its events say",
           "Profile the step anew"});
  }
}

/// Planners make further graphs of it, in which some bytes count more than once. `graph` must be
/// valid.
void check_total_bytes(const Graph& graph) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  std::int64_t total = 0;
  for (const Value& value : graph.values) total += value.bytes;
  for (const Op& op : graph.ops) {
    total += op.transient_bytes;
    for (const std::int64_t bytes : op.further_transient_bytes) total += bytes;
  }
  for (const Event& event : graph.events) {
    total += std::abs(event.net_bytes) + std::abs(event.peak_bytes);
  }
  if (total <= kMost) return;
  raise({"Graph", "num bytes of the step", std::to_string(total), "at most 2^50",
         "Profile the step anew"});
}

/// All for a graph from a file, whose faults are not bugs to report.
void validate_content(const Source& source, const Graph& graph) {
  try {
    validate(graph);
    check_saved(graph);
    check_total_bytes(graph);
  } catch (const std::invalid_argument& error) {
    const std::string_view what = error.what();
    raise({source.function, source.file,
           "at odds with itself (" + std::string(what.substr(0, what.find(". "))) + ")",
           "one profiled step", "Profile the step anew"});
  }
}

SavedGraph read_graph(const Source& source, std::string_view text) {
  const auto json = parse_json(source, text);
  const Field file(source, json);
  file.expect_format(kFormat, kVersion);
  std::vector<std::string_view> members{"format",       "version",    "origin", "signature",
                                        "step_seconds", "step_flops", "stages", "values",
                                        "ops",          "events"};
  const bool several_devices = file.has("devices");
  if (several_devices) members.push_back("devices");
  file.expect_members(members);
  SavedGraph saved;
  saved.origin = origin_of(file["origin"]);
  auto& graph = saved.graph;
  graph.signature = file["signature"].signature();
  graph.step_seconds = file["step_seconds"].amount();
  graph.step_flops = file["step_flops"].amount();
  graph.stages = stages_of(file["stages"]);
  if (several_devices) graph.devices = texts_of(file["devices"]);
  graph.values = values_of(file["values"], several_devices);
  graph.ops = ops_of(file["ops"], static_cast<Index>(graph.values.size()), several_devices);
  graph.events = events_of(file["events"], several_devices);
  validate_content(source, graph);
  return saved;
}

}  // namespace

std::string graph_text(const SavedGraph& saved) { return json_text(document(saved)); }

SavedGraph parse_graph(std::string_view text) {
  return read_graph({"parse_graph", "the text"}, text);
}

void save_graph(const SavedGraph& saved, const std::filesystem::path& path) {
  validate(saved.graph);
  replace_file("save_graph", path, graph_text(saved));
}

SavedGraph load_graph(const std::filesystem::path& path) {
  return read_graph({"load_graph", path.string()}, read_file("load_graph", path));
}

}  // namespace gradrecomp::plan
