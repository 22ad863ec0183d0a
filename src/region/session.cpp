#include "region/session.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "gradrecomp/host_link.h"
#include "gradrecomp/plan/predict.h"
#include "gradrecomp/plan/signature.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

namespace {

constexpr std::int64_t kManyUnplanned = 20;
constexpr std::size_t kMostSignatures = 4096;
// A device may be short of memory for good.
constexpr int kMostShortProfiles = 3;
// Measurements outlive plans, so that sequences which come in turn are profiled once.
constexpr std::size_t kMeasurementsAPlan = 16;

bool has_backward_inside(const plan::Graph& graph) {
  const auto seal = std::ranges::find(graph.events, plan::EventKind::seal, &plan::Event::kind);
  const auto demand = std::ranges::find(graph.events, plan::EventKind::demand, &plan::Event::kind);
  return demand < seal;
}

std::int64_t num_passes(const plan::Graph& graph) {
  return 1 + std::ranges::count(graph.events, plan::EventKind::pass_end, &plan::Event::kind);
}

// A step may do what the planner's model has no events for. Empty if it did not.
std::string why_not_plannable(const plan::Graph& graph) {
  if (has_backward_inside(graph)) {
    return Session::kBackwardInside;
  }
  try {
    plan::validate(graph);
    return {};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

tape::SweepPlans sweep_plans_of(const plan::Plan& plan) {
  if (plan.sweeps.empty()) return nullptr;
  return std::make_shared<const std::vector<plan::Sweep>>(plan.sweeps);
}

tape::Offloads offloads_of(const plan::Plan& plan) {
  if (plan.offloads.empty()) return nullptr;
  return std::make_shared<const tape::OffloadPlan>(plan.offloads);
}

std::shared_ptr<const tape::Retentions> retentions_of(const plan::Plan& plan,
                                                      const plan::Graph& graph) {
  tape::Retentions retentions;
  for (std::size_t i = 0; i < plan.keep.size(); ++i) {
    retentions.push_back(tape::retention(graph.values[i].must_keep, plan.keep[i] != 0));
  }
  return std::make_shared<const tape::Retentions>(std::move(retentions));
}

/// A sequence that goes on as a step of it kept, without a plan.
std::shared_ptr<KnownSequence> safe_sequence(const Session::Sequence& sequence,
                                             tape::Retentions kept, std::string why) {
  auto known = std::make_shared<KnownSequence>();
  known->why_safe = std::move(why);
  known->recording_plan.sequence = std::make_shared<const Session::Sequence>(sequence);
  known->recording_plan.retentions = std::make_shared<const tape::Retentions>(std::move(kept));
  return known;
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

/// What of `selection` is found in `graph`.
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
  return fits_graph(graph, found) ? found : plan::Selection{};
}

/// The effort of a plan's search, in proportion to the bytes that it can save: steps wait for it.
double search_effort(const plan::Graph& graph) {
  constexpr double kBytesOfFullEffort = 64 << 20;
  double bytes = 0;
  for (const plan::Value& value : graph.values) bytes += static_cast<double>(value.bytes);
  return std::min(1.0, bytes / kBytesOfFullEffort);
}

}  // namespace

Session::Session(Options options) : options_(std::move(options)) { validate(options_); }

std::shared_ptr<const KnownSequence> Session::active() const {
  const std::lock_guard lock(mutex_);
  const auto last = std::ranges::find_if(sequences_.rbegin(), sequences_.rend(),
                                         [](const Known& known) { return known->plan != nullptr; });
  return last == sequences_.rend() ? nullptr : *last;
}

std::string Session::why_no_plan() const {
  const std::lock_guard lock(mutex_);
  const bool is_settled = active_ && !active_->is_to_be_planned();
  return is_settled ? "no plan: " + active_->why_safe : "no plan yet: the next step is profiled";
}

std::int64_t Session::num_plans() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(sequences_,
                               [](const Known& known) { return known->plan != nullptr; });
}

std::shared_ptr<const std::string> Session::plan_name() const {
  const std::lock_guard lock(mutex_);
  return active_ ? active_->name : nullptr;
}

StepReport Session::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

bool Session::due_for_verification() const {
  return options_.verify == Verify::every_n_steps &&
         num_steps_ % options_.verify_interval_steps == 0;
}

tape::RecordingPlan Session::begin_step(bool may_profile) {
  const std::lock_guard lock(mutex_);
  begin_report({});
  last_step_ = last_number_;
  const bool scheduled = schedule_.begin_step();
  const bool profile = due_for_verification() || scheduled;
  ++num_steps_;
  if (profile && may_profile) return {};
  if (auto next = expected()) activate(std::move(next));
  return active_ ? recording_plan_of(*active_) : tape::RecordingPlan{};
}

void Session::at_next_step(std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  at_next_step_.push_back(std::move(then));
}

// They take the locks of tapes, under which backward passes tell us what they learn.
void Session::next_step_begins() {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    due.swap(at_next_step_);
  }
  for (const auto& then : due) then();
}

tape::RecordingPlan Session::leave_plan(std::size_t call, std::uint64_t hash) {
  const std::lock_guard lock(mutex_);
  for (const auto& known : sequences_) {
    const auto& sequence = *known->recording_plan.sequence;
    // The hash runs over all calls so far, so equal hashes mean equal beginnings.
    if (call < sequence.size() && sequence[call] == hash) {
      activate(known);
      return recording_plan_of(*active_);
    }
  }
  return {};
}

void Session::passed_over(const char* reason) {
  const std::lock_guard lock(mutex_);
  begin_report({.reason = reason});
}

void Session::begin_report(StepReport report) {
  reported_ = ++last_number_;
  report_ = std::move(report);
}

std::shared_ptr<arena::SequenceAddresses> Session::addresses() const {
  const std::lock_guard lock(mutex_);
  return active_ && active_->plan ? active_->addresses : nullptr;
}

std::int64_t Session::step_number() const {
  const std::lock_guard lock(mutex_);
  return last_number_;
}

void Session::gave_up(std::int64_t number, bool profiled) {
  const std::lock_guard lock(mutex_);
  if (profiled) schedule_.gave_up();
  note_report(number, {.profiled = profiled, .reason = "it was given up before it was closed"});
}

Session::Known Session::expected() const {
  const auto next = order_.next();
  if (!next) return nullptr;
  const auto known = std::ranges::find(sequences_, *next, &KnownSequence::signature);
  return known == sequences_.end() ? nullptr : *known;
}

void Session::closed(std::int64_t number, StepReport step, const Sequence& sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence.empty()) {
    step.reason = "it ran no operator";
    return note_report(number, std::move(step));
  }
  order_.came(sequence.back());
  const Known known = find(sequence);
  if (step.followed_plan) {
    schedule_.followed();
    step.reason = known ? known->why_safe : "";
    step.followed_plan = step.reason.empty();
  } else if (!step.profiled && known) {
    step.reason = "it began like another op sequence, whose plan it followed so far";
  } else if (!step.profiled) {
    schedule_.missed(sequence.back());
    step.reason = "its op sequence is new; it is profiled if it comes again";
  }
  warn_if_never_planned(step);
  const bool goes_on_by_another = !step.followed_plan && !step.profiled && known;
  note_report(number, std::move(step));
  if (goes_on_by_another) activate(known);
}

/// Leaves the report of a step that began later.
void Session::note_report(std::int64_t number, StepReport step) {
  if (number < last_step_) return;
  reported_ = number;
  report_ = std::move(step);
}

void Session::warn_if_never_planned(const StepReport& step) {
  num_unplanned_in_row_ = step.followed_plan ? 0 : num_unplanned_in_row_ + 1;
  if (num_unplanned_in_row_ != kManyUnplanned) return;
  TORCH_WARN("GradRecomp: a region has followed no plan for ", kManyUnplanned,
             " steps. Gradients are right, and some memory is saved, but the budget is not "
             "kept. Reason for the last step: ",
             step.reason, step.reason.ends_with('.') ? "" : ".");
}

bool Session::wants_guarded(const Sequence& sequence) const {
  const std::lock_guard lock(mutex_);
  const Known known = find(sequence);
  return known && !known->recording_plan.guarded;
}

// Recorders share what they follow, so a changed copy takes its place.
void Session::note_guarded(const Sequence& sequence, const tape::RecordingPlan& followed,
                           std::vector<tape::ValueId> values) {
  const std::lock_guard lock(mutex_);
  const Known known = find(sequence);
  if (!known || known->recording_plan.retentions != followed.retentions) return;
  auto changed = std::make_shared<KnownSequence>(*known);
  changed->recording_plan.guarded =
      std::make_shared<const std::vector<tape::ValueId>>(std::move(values));
  replace(known, std::move(changed));
}

void Session::look_at_modes() {
  const std::lock_guard lock(mutex_);
  looks_at_modes_ = true;
}

tape::RecordingPlan Session::recording_plan_of(const KnownSequence& known) const {
  tape::RecordingPlan recording_plan = known.recording_plan;
  recording_plan.has_one_mode = recording_plan.has_one_mode && !looks_at_modes_;
  return recording_plan;
}

void Session::replayed(std::int64_t number, const tape::Tape& tape) {
  const std::lock_guard lock(mutex_);
  if (number != reported_) return;
  const tape::Counts& counts = tape.counts();
  report_.num_replayed_ops = counts.replayed_ops;
  report_.num_substituted_ops = counts.substituted_ops;
  report_.replay_seconds = counts.replay_seconds;
  report_.offloaded_bytes = counts.offloaded_bytes;
  report_.unplanned_bytes = counts.unplanned_bytes;
}

Session::Known Session::find(const Sequence& sequence) const {
  const auto known = std::ranges::find_if(
      sequences_, [&](const Known& other) { return *other->recording_plan.sequence == sequence; });
  return known == sequences_.end() ? nullptr : *known;
}

// A sequence is profiled again where another was expected.
bool Session::adds_nothing(const Known& before, const Profiled& profiled,
                           const plan::Graph& graph) const {
  if (!before || !before->plan || options_.verify == Verify::every_n_steps) return false;
  const auto is_same = [](const tape::ReplayMethod& a, const tape::ReplayMethod& b) {
    return a.formula == b.formula && a.joins == b.joins;
  };
  return (profiled.has_one_mode || !before->recording_plan.has_one_mode) &&
         num_passes(*before->graph) >= num_passes(graph) &&
         std::ranges::equal(*before->recording_plan.methods, profiled.methods, is_same) &&
         std::ranges::equal(before->graph->values, graph.values, {}, &plan::Value::must_keep,
                            &plan::Value::must_keep);
}

void Session::learn(const Profiled& profiled, plan::Graph graph) {
  {
    const std::lock_guard lock(mutex_);
    if (profiled.was_short_of_memory) {
      if (profiled.is_of_first_pass) ++num_short_profiles_;
      if (num_short_profiles_ < kMostShortProfiles) return;
    }
    schedule_.profiled(profiled.sequence.back());
    const Known before = find(profiled.sequence);
    if (adds_nothing(before, profiled, graph)) return activate(before);
  }
  if (const std::string why = why_not_plannable(graph); !why.empty()) {
    return settle_unplannable(profiled.sequence, profiled.kept, why);
  }
  auto known = std::make_shared<KnownSequence>();
  known->graph = std::make_shared<const plan::Graph>(std::move(graph));
  known->device = profiled.device;
  known->recording_plan.sequence = std::make_shared<const Sequence>(profiled.sequence);
  known->recording_plan.methods =
      std::make_shared<const std::vector<tape::ReplayMethod>>(profiled.methods);
  known->recording_plan.has_one_mode = profiled.has_one_mode;
  plan_for(*known);
  remember(std::move(known));
}

void Session::settle(const Sequence& sequence, tape::Retentions kept, std::string why) {
  remember(safe_sequence(sequence, std::move(kept), std::move(why)));
}

void Session::settle_unplannable(const Sequence& sequence, tape::Retentions kept,
                                 const std::string& why) {
  if (!warned_of_safe_.exchange(true)) {
    TORCH_WARN(
        "GradRecomp cannot plan this op sequence and drops stage by stage instead, as in its "
        "first step: ",
        why);
  }
  settle(sequence, std::move(kept), "it cannot be planned: " + why);
}

void Session::never_asked(const Sequence& sequence, tape::Retentions kept) {
  const std::lock_guard lock(mutex_);
  if (sequence.empty() || asked_.contains(sequence.back()) || find(sequence)) return;
  if (never_asked_.size() == kMostSignatures) never_asked_.clear();
  if (++never_asked_[sequence.back()] < 2) return;
  auto known =
      safe_sequence(sequence, std::move(kept), "no backward pass has asked it for anything");
  known->is_provisional = true;
  remember(std::move(known));
}

void Session::asked(const Sequence& sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence.empty()) return;
  if (asked_.size() == kMostSignatures) asked_.clear();
  asked_.insert(sequence.back());
  const Known known = find(sequence);
  if (!known || !known->is_provisional) return;
  std::erase(sequences_, known);
  if (active_ == known) active_ = nullptr;
}

void Session::plan_for(KnownSequence& known) {
  const plan::Graph& graph = *known.graph;
  known.plan = std::make_shared<const plan::Plan>(make_plan(graph, known.device));
  known.name = std::make_shared<const std::string>(known.plan->brief_report());
  known.recording_plan.retentions = retentions_of(*known.plan, graph);
  known.recording_plan.sweeps = sweep_plans_of(*known.plan);
  known.recording_plan.offloads = offloads_of(*known.plan);
  known.recording_plan.guarded = nullptr;
  if (known.device.is_cpu() && !known.addresses) {
    known.addresses = std::make_shared<arena::SequenceAddresses>();
  }
}

void Session::remember(Known known) {
  const std::lock_guard lock(mutex_);
  if (const Known before = find(*known->recording_plan.sequence)) std::erase(sequences_, before);
  const auto most = kMeasurementsAPlan * static_cast<std::size_t>(options_.max_plans);
  if (sequences_.size() >= most) sequences_.erase(sequences_.begin());
  activate(std::move(known));
}

void Session::replace(const Known& known, Known by) {
  if (active_ == known) active_ = by;
  std::ranges::replace(sequences_, known, by);
}

// Loops over the sequences end when they call this, so it may change what they run over.
void Session::activate(Known known) {
  const Known before = known;
  if (known->is_to_be_planned() && !known->plan) {
    auto planned = std::make_shared<KnownSequence>(*known);
    plan_for(*planned);
    known = std::move(planned);
  }
  std::erase(sequences_, before);
  sequences_.push_back(known);
  active_ = std::move(known);
  forget_plans();
}

// Forgets those of the sequences that were followed longest ago.
void Session::forget_plans() {
  auto excess = num_plans() - options_.max_plans;
  for (Known& known : sequences_) {
    if (excess <= 0) return;
    if (!known->plan) continue;
    auto forgotten = std::make_shared<KnownSequence>(*known);
    forgotten->plan = nullptr;
    forgotten->recording_plan.retentions = nullptr;
    forgotten->recording_plan.sweeps = nullptr;
    forgotten->recording_plan.offloads = nullptr;
    known = std::move(forgotten);
    --excess;
  }
}

plan::Plan Session::make_plan(const plan::Graph& graph, c10::Device device) {
  if (options_.plan && fits(*options_.plan, graph)) return given_plan(graph);
  plan::Request request = request_of(options_);
  request.effort = search_effort(graph);
  if (options_.offload) request.host_link = measured_host_link(device);
  return plan_with_selection(graph, std::move(request));
}

// A name that the first sequence does not have is taken for misspelled. Later sequences, in the
// middle of training, may do without.
plan::Plan Session::plan_with_selection(const plan::Graph& graph, plan::Request request) {
  const bool is_first = [&] {
    const std::lock_guard lock(mutex_);
    return sequences_.empty();
  }();
  if (!is_first && !fits_graph(graph, request.selection)) {
    request.selection = found_in(graph, request.selection);
    if (!warned_of_selection_.exchange(true)) {
      TORCH_WARN(
          "GradRecomp: Options::selection names stages, ops or layer types that a later op "
          "sequence does not have. It is planned by those that it has.");
    }
  }
  try {
    return plan::make_plan(graph, request);
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError, in_options(error.what()));
  }
}

bool Session::fits(const plan::Plan& given, const plan::Graph& graph) {
  if (given.signature == graph.signature) return true;
  if (!warned_of_signature_.exchange(true)) {
    TORCH_WARN("GradRecomp ignores Options::plan, which was made for op sequence ",
               plan::signature_text(given.signature), ", and plans this one (",
               plan::signature_text(graph.signature), ") by the budget.");
  }
  return false;
}

plan::Plan Session::given_plan(const plan::Graph& graph) const {
  try {
    return plan::predict(graph, *options_.plan);
  } catch (const std::invalid_argument& error) {
    C10_THROW_ERROR(ValueError,
                    "Options::plan does not fit its op sequence: " + std::string(error.what()));
  }
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
