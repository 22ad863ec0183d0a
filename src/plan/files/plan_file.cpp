#include "gradrecomp/plan/plan_file.h"

#include <cstddef>
#include <limits>
#include <vector>

#include "file_replacement.h"
#include "gradrecomp/plan/signature.h"
#include "json_field.h"
#include "json_text.h"
#include "origin_json.h"
#include "text_file.h"

namespace gradrecomp::plan {
namespace {

constexpr std::string_view kFormat = "gradrecomp plan";
constexpr std::int64_t kVersion = 1;
constexpr Index kMostValues = 1 << 27;  // so that a broken file cannot ask for all memory
constexpr Index kMostEvents = std::numeric_limits<Index>::max();

std::vector<Index> kept_values(const std::vector<std::uint8_t>& keep) {
  std::vector<Index> kept;
  for (std::size_t v = 0; v < keep.size(); ++v) {
    if (keep[v] != 0) kept.push_back(static_cast<Index>(v));
  }
  return kept;
}

Json json_of_sweeps(const std::vector<Sweep>& sweeps) {
  Json list = Json::array();
  for (const auto& [target, cached] : sweeps)
    list.push_back({{"target", target}, {"cached", cached}});
  return list;
}

Json json_of_offloads(const std::vector<Offload>& offloads) {
  Json list = Json::array();
  for (const auto& [value, leaves_after, returns_at] : offloads) {
    list.push_back({{"value", value}, {"leaves_after", leaves_after}, {"returns_at", returns_at}});
  }
  return list;
}

Json json_of_roundings(const Plan& plan) {
  Json list = Json::array();
  for (const auto& [value, after] : plan.roundings) {
    list.push_back({{"value", value}, {"after", after}});
  }
  return {{"bytes", plan.rounded_bytes},
          {"overhead", json_of(plan.predicted_rounding)},
          {"values", list}};
}

Json json_of_devices(const std::vector<DevicePeak>& devices) {
  Json list = Json::array();
  for (const auto& [device, peak_bytes, plain_peak_bytes] : devices) {
    list.push_back(
        {{"device", device}, {"peak_bytes", peak_bytes}, {"plain_peak_bytes", plain_peak_bytes}});
  }
  return list;
}

Json json_of_proof(const Proof& proof) {
  Json events = Json::array();
  Json weights = Json::array();
  for (const auto& [event, weight] : proof.moments) {
    events.push_back(event);
    weights.push_back(weight);
  }
  Json json = {{"price", proof.price}, {"events", events}, {"weights", weights}};
  if (proof.by_ops) json["by_ops"] = true;
  return json;
}

Json json_of_proofs(const Plan& plan) {
  Json proven = {{"peak_bytes", plan.proven_peak_bytes},
                 {"overhead", json_of(plan.proven_overhead)}};
  if (!plan.peak_proof.moments.empty()) proven["peak_proof"] = json_of_proof(plan.peak_proof);
  if (!plan.overhead_proof.moments.empty()) {
    proven["overhead_proof"] = json_of_proof(plan.overhead_proof);
  }
  return proven;
}

Json document(const SavedPlan& saved) {
  // A member more in Plan does not compile here, so that none is forgotten.
  const auto& [policy, keep, sweeps, offloads, roundings, signature, cost, feasible, peak_bytes,
               plain_peak_bytes, devices, overhead_seconds, overhead_flops, num_replayed_ops,
               offloaded_bytes, stall, rounded_bytes, rounding, proven_peak_bytes, proven_overhead,
               peak_proof, overhead_proof, planning_seconds] = saved.plan;
  static_cast<void>(rounded_bytes);  // json_of_roundings() takes both
  static_cast<void>(rounding);
  static_cast<void>(planning_seconds);  // of the run that planned, not of the plan
  Json file = {{"format", kFormat},
               {"version", kVersion},
               {"origin", json_of(saved.origin)},
               {"signature", signature_text(signature)},
               {"policy", policy},
               {"cost", cost == CostModel::flops ? "flops" : "seconds"},
               {"feasible", feasible},
               {"predicted",
                {{"peak_bytes", peak_bytes},
                 {"plain_peak_bytes", plain_peak_bytes},
                 {"overhead_seconds", json_of(overhead_seconds)},
                 {"overhead_flops", json_of(overhead_flops)},
                 {"num_replayed_ops", num_replayed_ops},
                 {"offloaded_bytes", offloaded_bytes},
                 {"stall", json_of(stall)}}},
               {"proven", json_of_proofs(saved.plan)},
               {"num_values", keep.size()},
               {"kept", kept_values(keep)},
               {"sweeps", json_of_sweeps(sweeps)},
               {"offloads", json_of_offloads(offloads)}};
  if (!roundings.empty()) file["roundings"] = json_of_roundings(saved.plan);
  if (!devices.empty()) file["devices"] = json_of_devices(devices);
  return file;
}

void read_predictions(const Field& file, Plan& plan) {
  const auto predicted = file["predicted"];
  predicted.expect_members({"peak_bytes", "plain_peak_bytes", "overhead_seconds", "overhead_flops",
                            "num_replayed_ops", "offloaded_bytes", "stall"});
  plan.predicted_peak_bytes = predicted["peak_bytes"].whole();
  plan.predicted_plain_peak_bytes = predicted["plain_peak_bytes"].whole();
  plan.predicted_overhead_seconds = predicted["overhead_seconds"].amount();
  plan.predicted_overhead_flops = predicted["overhead_flops"].amount();
  plan.num_replayed_ops = predicted["num_replayed_ops"].whole();
  plan.offloaded_bytes = predicted["offloaded_bytes"].whole();
  plan.predicted_stall = predicted["stall"].amount();
}

Proof read_proof(const Field& proof) {
  std::vector<std::string_view> members = {"price", "events", "weights"};
  if (proof.has("by_ops")) members.push_back("by_ops");
  proof.expect_members(members);
  Proof read;
  read.by_ops = proof.has("by_ops") && proof["by_ops"].flag();
  read.price = proof["price"].whole();
  const auto weights = proof["weights"];
  for (const Index event : proof["events"].ascending_indices(kMostEvents)) {
    read.moments.push_back({event, 0});
  }
  weights.expect_size(read.moments.size());
  for (std::size_t m = 0; m < read.moments.size(); ++m) {
    read.moments[m].weight = weights[m].whole({.least = 1});
  }
  return read;
}

void read_proofs(const Field& proven, Plan& plan) {
  std::vector<std::string_view> members{"peak_bytes", "overhead"};
  for (const char* proof : {"peak_proof", "overhead_proof"}) {
    if (proven.has(proof)) members.push_back(proof);
  }
  proven.expect_members(members);
  plan.proven_peak_bytes = proven["peak_bytes"].whole();
  plan.proven_overhead = proven["overhead"].amount();
  if (proven.has("peak_proof")) plan.peak_proof = read_proof(proven["peak_proof"]);
  if (proven.has("overhead_proof")) plan.overhead_proof = read_proof(proven["overhead_proof"]);
}

void read_devices(const Field& list, Plan& plan) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto device = list[i];
    device.expect_members({"device", "peak_bytes", "plain_peak_bytes"});
    plan.devices.push_back({device["device"].text(), device["peak_bytes"].whole(),
                            device["plain_peak_bytes"].whole()});
  }
}

void read_sweeps(const Field& list, Plan& plan) {
  const auto num_values = static_cast<Index>(plan.keep.size());
  Index least = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto sweep = list[i];
    sweep.expect_members({"target", "cached"});
    const Index target = sweep["target"].index(least, num_values);
    plan.sweeps.push_back({target, sweep["cached"].ascending_indices(num_values)});
    least = target + 1;
  }
}

void read_offloads(const Field& list, Plan& plan) {
  const auto num_values = static_cast<Index>(plan.keep.size());
  Index least = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto offload = list[i];
    offload.expect_members({"value", "leaves_after", "returns_at"});
    const Index value = offload["value"].index(least, num_values);
    plan.offloads.push_back({value, offload["leaves_after"].index(0, kMostValues),
                             offload["returns_at"].index(-1, num_values)});
    least = value + 1;
  }
}

void read_roundings(const Field& roundings, Plan& plan) {
  roundings.expect_members({"bytes", "overhead", "values"});
  plan.rounded_bytes = roundings["bytes"].whole();
  plan.predicted_rounding = roundings["overhead"].amount();
  const auto list = roundings["values"];
  Index least = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto rounding = list[i];
    rounding.expect_members({"value", "after"});
    const Index value = rounding["value"].index(least, static_cast<Index>(plan.keep.size()));
    plan.roundings.push_back({value, rounding["after"].index(0, kMostValues)});
    least = value + 1;
  }
}

void read_values(const Field& file, Plan& plan) {
  const Index num_values = file["num_values"].index(0, kMostValues + 1);
  plan.keep.assign(static_cast<std::size_t>(num_values), 0);
  for (const Index v : file["kept"].ascending_indices(num_values)) plan.keep[v] = 1;
  read_sweeps(file["sweeps"], plan);
  read_offloads(file["offloads"], plan);
  if (file.has("roundings")) read_roundings(file["roundings"], plan);
}

SavedPlan read_plan(const Source& source, std::string_view text) {
  const auto json = parse_json(source, text);
  const Field file(source, json);
  file.expect_format(kFormat, kVersion);
  std::vector<std::string_view> members{
      "format",    "version", "origin",     "signature", "policy", "cost",    "feasible",
      "predicted", "proven",  "num_values", "kept",      "sweeps", "offloads"};
  for (const char* optional : {"devices", "roundings"}) {
    if (file.has(optional)) members.push_back(optional);
  }
  file.expect_members(members);
  SavedPlan saved;
  saved.origin = origin_of(file["origin"]);
  saved.plan.signature = file["signature"].signature();
  saved.plan.policy = file["policy"].text();
  saved.plan.cost =
      file["cost"].choice({"seconds", "flops"}) == 1 ? CostModel::flops : CostModel::seconds;
  saved.plan.feasible = file["feasible"].flag();
  read_predictions(file, saved.plan);
  read_proofs(file["proven"], saved.plan);
  if (file.has("devices")) read_devices(file["devices"], saved.plan);
  read_values(file, saved.plan);
  return saved;
}

}  // namespace

std::string plan_text(const SavedPlan& saved) { return json_text(document(saved)); }

SavedPlan parse_plan(std::string_view text) { return read_plan({"parse_plan", "the text"}, text); }

void save_plan(const SavedPlan& saved, const std::filesystem::path& path) {
  const auto text = plan_text(saved);
  read_plan({"save_plan", "the plan"}, text);  // what cannot be read back is not written
  replace_file("save_plan", path, text);
}

SavedPlan load_plan(const std::filesystem::path& path) {
  return read_plan({"load_plan", path.string()}, read_file("load_plan", path));
}

}  // namespace gradrecomp::plan
