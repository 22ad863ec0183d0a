#include "region/sequence_planner.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "gradrecomp/host_link.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/predict.h"
#include "gradrecomp/plan/signature.h"
#include "gradrecomp/rounding_speed.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

namespace {

tape::SweepPlans sweep_plans_of(const plan::Plan& plan) {
  if (plan.sweeps.empty()) return nullptr;
  return std::make_shared<const std::vector<plan::Sweep>>(plan.sweeps);
}

tape::Absences absences_of(const plan::Plan& plan) {
  if (plan.offloads.empty() && plan.roundings.empty()) return nullptr;
  return std::make_shared<const tape::AbsencePlan>(plan.offloads, plan.roundings);
}

std::shared_ptr<const tape::Retentions> retentions_of(const plan::Plan& plan,
                                                      const plan::Graph& graph) {
  tape::Retentions retentions;
  for (std::size_t i = 0; i < plan.keep.size(); ++i) {
    retentions.push_back(tape::retention(graph.values[i].must_keep, plan.keep[i] != 0));
  }
  for (const plan::Op& op : graph.ops) {
    if (op.name != tape::kUnseenWrite) continue;
    for (const plan::Index v : op.inputs) {
      if (graph.values[v].producer >= 0) tape::note_as_written(retentions[v]);
    }
  }
  return std::make_shared<const tape::Retentions>(std::move(retentions));
}

bool fits_graph(const plan::Graph& graph, const plan::Selection& selection) {
  try {
    static_cast<void>(plan::select(graph, selection));
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

/// What the planner says of an argument, by the name of the option it came from.
std::string in_options(std::string_view error) {
  constexpr std::string_view kSelection = "Selection: ";
  if (!error.starts_with(kSelection)) return std::string(error);
  return "Options::selection: " + std::string(error.substr(kSelection.size()));
}

/// What of `selection` is found in `graph`; where that asks to keep and to drop one value, what is
/// to be kept, as no replay can go wrong there.
plan::Selection found_in(const plan::Graph& graph, const plan::Selection& selection) {
  using Member = std::vector<std::string> plan::Selection::*;
  plan::Selection found;
  for (const Member member :
       {&plan::Selection::keep_stages, &plan::Selection::drop_stages, &plan::Selection::keep_ops,
        &plan::Selection::drop_ops, &plan::Selection::keep_types, &plan::Selection::drop_types}) {
    for (const std::string& pattern : selection.*member) {
      plan::Selection one;
      (one.*member).push_back(pattern);
      if (fits_graph(graph, one)) (found.*member).push_back(pattern);
    }
  }
  if (fits_graph(graph, found)) return found;
  return {
      .keep_stages = found.keep_stages, .keep_ops = found.keep_ops, .keep_types = found.keep_types};
}

/// The effort of a plan's search, in proportion to the bytes that it can save: steps wait for it.
double search_effort(const plan::Graph& graph) {
  constexpr double kBytesOfFullEffort = 64 << 20;
  double bytes = 0;
  for (const plan::Value& value : graph.values) bytes += static_cast<double>(value.bytes);
  return std::min(1.0, bytes / kBytesOfFullEffort);
}

/// `graph` with seconds as replays of `plan` took them. What they took beyond the promise went to
/// the start of each, as far as it may have, and the rest to each in proportion.
plan::Graph remeasured(plan::Graph graph, const plan::Plan& plan, const MeasuredCosts& costs) {
  constexpr double kMostStartSeconds = 10e-6;
  const double promised = plan.predicted_overhead_seconds * graph.step_seconds;
  const double beyond = (costs.replay_seconds - promised) / std::max(1.0, costs.num_replayed_ops);
  const double start = std::clamp(beyond, 0.0, kMostStartSeconds);
  const double rest = costs.replay_seconds - start * costs.num_replayed_ops;
  const double ratio = promised > 0 ? rest / promised : 1;
  for (plan::Op& op : graph.ops) {
    op.replay_seconds = op.replay_seconds * ratio + start;
    if (op.joins) op.joined_seconds = op.joined_seconds * ratio + start;
  }
  graph.step_seconds = costs.step_seconds;
  return graph;
}

bool has_several_accelerators(const plan::Graph& graph) {
  return std::ranges::count_if(
             graph.devices, [](const std::string& name) { return !name.starts_with("cpu"); }) > 1;
}

/// `link` as `bytes` have found it, which each way waited for `costs`, the part of all waits that
/// was `planned` left out.
plan::HostLink slowed(plan::HostLink link, double bytes, double planned, MeasuredCosts costs) {
  const double waits = costs.departure_seconds + costs.arrival_seconds;
  const double beyond = waits > 0 ? std::max(0.0, 1 - planned / waits) : 0;
  costs.departure_seconds *= beyond;
  costs.arrival_seconds *= beyond;
  const auto beside_work = [&](double bytes_per_second, double wait) {
    return bytes / (bytes / bytes_per_second + wait);
  };
  link.store_bytes_per_second = beside_work(link.store_bytes_per_second, costs.departure_seconds);
  link.fetch_bytes_per_second = beside_work(link.fetch_bytes_per_second, costs.arrival_seconds);
  return link;
}

/// None where it cannot be measured, for lack of memory too: then nothing is rounded.
std::optional<double> rounding_speed(c10::Device device) {
  try {
    return measured_rounding_speed(device);
  } catch (const c10::OutOfMemoryError&) {
    return std::nullopt;
  }
}

/// Nothing that recording would be worth, which takes `tape_bytes` itself.
bool saves_nothing(const plan::Plan& plan, std::int64_t tape_bytes) {
  constexpr double kLittle = 0.01;
  const auto plain = static_cast<double>(plan.predicted_plain_peak_bytes);
  return static_cast<double>(plan.predicted_peak_bytes + tape_bytes) >= (1 - kLittle) * plain;
}

}  // namespace

void SequencePlanner::plan(KnownSequence& known, bool is_first) {
  const plan::Graph& graph = *known.graph;
  known.plan = std::make_shared<const plan::Plan>(make_plan(known, is_first));
  known.name = std::make_shared<const std::string>(known.plan->brief_report());
  known.recording_plan.retentions = retentions_of(*known.plan, graph);
  known.recording_plan.sweeps = sweep_plans_of(*known.plan);
  known.recording_plan.absences = absences_of(*known.plan);
  known.recording_plan.guarded = nullptr;
  if (known.device.is_cpu() && !known.addresses) {
    known.addresses = std::make_shared<arena::SequenceAddresses>();
  }
}

plan::Plan SequencePlanner::make_plan(const KnownSequence& known, bool is_first) {
  const plan::Graph& graph = *known.graph;
  if (options_.plan && fits(*options_.plan, graph)) return given_plan(graph);
  if (known.records_nothing) return plan::make_plan(graph, {.policy = "keep_all"});
  plan::Request request = request_of(options_);
  request.effort = search_effort(graph);
  if (options_.offload) request.host_link = link_of(known);
  if (options_.forms == Forms::lossy_bf16) {
    request.bytes_rounded_per_second = rounding_speed(known.device);
  }
  if (request.max_overhead && request.cost == plan::CostModel::seconds) {
    request.max_overhead = std::max(0.0, *request.max_overhead - known.recording_overhead);
  }
  return plan_with_selection(graph, std::move(request), is_first);
}

std::optional<PlanTrial> SequencePlanner::trial_of(const KnownSequence& known) const {
  constexpr double kSmallShare = 0.005;  // of the step
  constexpr double kSecondsAnOp = 4e-6;  // that recording takes on a slow machine
  const bool on_host = known.device.is_cpu();
  const bool rounds = options_.forms != Forms::exact;
  const bool moves_on_host = on_host && options_.offload;  // for tests alone
  if (known.records_nothing || options_.plan || rounds || moves_on_host) return std::nullopt;
  if (has_several_accelerators(*known.graph)) return std::nullopt;  // one would be timed
  if (options_.policy == plan::Policy("keep_all")) return PlanTrial(/*compares=*/false);
  const bool has_budget = request_of(options_).max_overhead && !options_.policy;
  if (!has_budget || options_.cost != plan::CostModel::seconds) return std::nullopt;
  if (!on_host) return PlanTrial(/*compares=*/false);
  const double recording_seconds = kSecondsAnOp * static_cast<double>(known.graph->ops.size());
  const bool may_matter = recording_seconds > kSmallShare * known.graph->step_seconds;
  return PlanTrial(may_matter && may_record_nothing(known));
}

double SequencePlanner::max_overhead() const {
  return request_of(options_).max_overhead.value_or(0);
}

// A step of a sequence that records nothing holds what the plain step does. On a device it is not
// seen what recording costs, nor that an unrecorded step was another one: only its host's memory is
// looked at.
bool SequencePlanner::may_record_nothing(const KnownSequence& known) const {
  if (!known.device.is_cpu() && options_.policy != plan::Policy("keep_all")) return false;
  const plan::Plan& plan = *known.plan;
  return options_.selection == plan::Selection{} &&
         plan.predicted_plain_peak_bytes - plan.predicted_peak_bytes < options_.unrecorded_bytes;
}

void SequencePlanner::adjust(KnownSequence& known, const MeasuredCosts& costs) {
  constexpr double kPoint = 0.01;
  known.recording_overhead = costs.recording_overhead();
  const bool may_go_without = may_record_nothing(known);
  known.records_nothing =
      may_go_without && (options_.policy || known.recording_overhead > max_overhead() ||
                         saves_nothing(*known.plan, costs.tape_bytes));
  if (known.records_nothing) return plan_again(known);
  const double measured =
      costs.replay_overhead() + costs.waiting_overhead() + costs.recording_overhead();
  const double promised = known.plan->predicted_overhead_seconds + known.plan->predicted_stall;
  if (options_.policy || std::abs(measured - promised) <= kPoint) return;
  measure_again(known, costs);
  plan_again(known);
  known.records_nothing = may_go_without && saves_nothing(*known.plan, costs.tape_bytes);
  if (known.records_nothing) plan_again(known);
}

// Beside the device's own work the link to the host is slower than alone.
void SequencePlanner::measure_again(KnownSequence& known, const MeasuredCosts& costs) {
  double bytes = 0;
  for (const plan::Offload& offload : known.plan->offloads) {
    bytes += static_cast<double>(known.graph->values[offload.value].bytes);
  }
  const double planned = known.plan->predicted_stall * known.graph->step_seconds;
  if (bytes > 0) known.host_link = slowed(link_of(known), bytes, planned, costs);
  known.graph = std::make_shared<const plan::Graph>(remeasured(*known.graph, *known.plan, costs));
}

plan::HostLink SequencePlanner::link_of(const KnownSequence& known) {
  return known.host_link ? *known.host_link : measured_host_link(known.device);
}

void SequencePlanner::plan_again(KnownSequence& known) {
  known.addresses = nullptr;  // they are of the blocks under another plan
  plan(known, /*is_first=*/false);
}

// A name that the first sequence does not have is taken for misspelled. Later sequences, in the
// middle of training, may do without.
plan::Plan SequencePlanner::plan_with_selection(const plan::Graph& graph, plan::Request request,
                                                bool is_first) {
  if (!is_first && !fits_graph(graph, request.selection)) {
    request.selection = found_in(graph, request.selection);
    if (!warned_of_selection_.exchange(true)) {
      TORCH_WARN(
          "GradRecomp: Options::selection names stages, ops or layer types that a later op "
          "sequence does not have, or asks to keep and to drop the same value there. That sequence "
          "is planned by what it has and, where that contradicts itself, by what is to be kept.");
    }
  }
  try {
    return plan::make_plan(graph, request);
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError, in_options(error.what()));
  }
}

bool SequencePlanner::fits(const plan::Plan& given, const plan::Graph& graph) {
  if (given.signature == graph.signature) return true;
  if (!warned_of_signature_.exchange(true)) {
    TORCH_WARN("GradRecomp ignores Options::plan, which was made for op sequence ",
               plan::signature_text(given.signature), ", and plans this one (",
               plan::signature_text(graph.signature), ") by the budget.");
  }
  return false;
}

plan::Plan SequencePlanner::given_plan(const plan::Graph& graph) const {
  try {
    return plan::predict(graph, *options_.plan);
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError,
                    "Options::plan does not fit its op sequence: " + std::string(error.what()));
  }
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
