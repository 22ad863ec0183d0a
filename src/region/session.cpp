#include "region/session.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

namespace {

// A device may be short of memory for good.
constexpr int kMostShortProfiles = 3;
// Of a step that is not recorded, over what the plain step holds, before it is taken for another.
constexpr std::int64_t kMostGrowth = 2;

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

/// A sequence that goes on as a step of it kept, without a plan.
std::shared_ptr<KnownSequence> sequence_as_kept(const Sequence& sequence, tape::Retentions kept,
                                                std::string why) {
  auto known = std::make_shared<KnownSequence>();
  known->why_unplanned = std::move(why);
  known->recording_plan.sequence = std::make_shared<const Sequence>(sequence);
  known->recording_plan.retentions = std::make_shared<const tape::Retentions>(std::move(kept));
  return known;
}

}  // namespace

Session::Session(Options options)
    : options_(std::move(options)),
      planner_(options_),
      trials_(planner_),
      sequences_(options_.max_plans) {
  validate(options_);
}

std::shared_ptr<const KnownSequence> Session::last_planned() const {
  const std::lock_guard lock(mutex_);
  return sequences_.last_planned();
}

std::string Session::why_no_plan() const {
  const std::lock_guard lock(mutex_);
  const Known& active = sequences_.active();
  const bool is_settled = active && !active->is_to_be_planned();
  return is_settled ? "no plan: " + active->why_unplanned
                    : "no plan yet: the next step is profiled";
}

std::int64_t Session::num_plans() const {
  const std::lock_guard lock(mutex_);
  return sequences_.num_plans();
}

std::shared_ptr<const std::string> Session::plan_name() const {
  const std::lock_guard lock(mutex_);
  return sequences_.active() ? sequences_.active()->name : nullptr;
}

StepReport Session::report() const {
  const std::lock_guard lock(mutex_);
  return reports_.last();
}

bool Session::due_for_verification() const {
  return options_.verify == Verify::every_n_steps &&
         num_steps_ % options_.verify_interval_steps == 0;
}

Session::StepStart Session::begin_step(bool may_profile) {
  const std::lock_guard lock(mutex_);
  reports_.begin_step();
  const bool scheduled = schedule_.begin_step();
  const bool profile = due_for_verification() || scheduled;
  ++num_steps_;
  if (profile && may_profile) return {};
  if (const Known next = expected()) activate(next);
  const Known& active = sequences_.active();
  if (!active) return {};
  StepStart start{.signature = active->signature(), .device = active->device};
  if (may_profile) start.turn = trials_.begin_step(*active);
  if (start.turn.is_recorded) {
    start.plan = active->recording_plan;
  } else {
    start.most_growth = kMostGrowth * active->plan->predicted_plain_peak_bytes;
  }
  return start;
}

void Session::at_next_step(std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  at_next_step_.push_back(std::move(then));
}

// They take the locks of tapes, under which backward passes tell us what they learn. A handler of
// warnings may wait for who waits for us, or throw: no step is under way yet.
void Session::next_step_begins() {
  std::vector<std::function<void()>> due;
  std::string warning;
  {
    const std::lock_guard lock(mutex_);
    due.swap(at_next_step_);
    warning.swap(warning_at_next_step_);
  }
  for (const auto& then : due) then();
  if (!warning.empty()) TORCH_WARN(warning);
}

tape::RecordingPlan Session::leave_plan(std::size_t call, std::uint64_t hash) {
  const std::lock_guard lock(mutex_);
  const Known known = sequences_.going_on_so(call, hash);
  if (!known) return {};
  activate(known);
  return sequences_.active()->recording_plan;
}

void Session::passed_over(const char* reason) {
  const std::lock_guard lock(mutex_);
  reports_.passed_over(reason);
}

std::shared_ptr<arena::SequenceAddresses> Session::addresses() const {
  const std::lock_guard lock(mutex_);
  const Known& active = sequences_.active();
  return active && active->plan ? active->addresses : nullptr;
}

std::int64_t Session::step_number() const {
  const std::lock_guard lock(mutex_);
  return reports_.number();
}

void Session::gave_up(std::int64_t number, bool profiled) {
  const std::lock_guard lock(mutex_);
  if (profiled) schedule_.gave_up();
  reports_.note(number, {.profiled = profiled, .reason = "it was given up before it was closed"});
}

Session::Known Session::expected() const {
  const auto next = order_.next();
  return next ? sequences_.find(*next) : nullptr;
}

void Session::closed(std::int64_t number, StepReport step, const Sequence& sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence.empty()) {
    step.reason = "it ran no operator";
    return reports_.note(number, std::move(step));
  }
  order_.came(sequence.back());
  trials_.ended(step.followed_plan);
  const Known known = sequences_.find(sequence);
  if (step.followed_plan) {
    schedule_.followed();
    step.reason = known ? known->why_unplanned : "";
    step.followed_plan = step.reason.empty();
  } else if (!step.profiled && known) {
    step.reason = "it began like another op sequence, whose plan it followed so far";
  } else if (!step.profiled) {
    schedule_.missed(sequence.back());
    step.reason = "its op sequence is new; it is profiled if it comes again";
  }
  const bool goes_on_by_another = !step.followed_plan && !step.profiled && known;
  std::string warning = reports_.closed(number, std::move(step));
  if (!warning.empty()) warning_at_next_step_ = std::move(warning);
  if (goes_on_by_another) activate(known);
}

void Session::closed_unrecorded(std::int64_t number, const StepStart& start, double forward_seconds,
                                std::int64_t growth_bytes) {
  const std::lock_guard lock(mutex_);
  order_.came(start.signature);
  trials_.ended_unrecorded(/*is_another=*/growth_bytes > start.most_growth);
  if (start.turn.is_timed) trials_.add_unrecorded(start.signature, {forward_seconds, growth_bytes});
  reports_.note(number, {.reason = why_unrecorded(start), .on_trial = start.turn.is_timed});
}

std::string Session::why_unrecorded(const StepStart& start) const {
  if (start.turn.is_timed) return "it was not recorded, to see what recording costs";
  if (options_.policy) return "it was not recorded, as its policy keeps all";
  return "it was not recorded, as recording takes too much of the budget, or of memory, for what "
         "a plan would save";
}

void Session::timed(std::int64_t number, const Sequence& sequence, const RecordedCosts& times) {
  Known known;
  std::optional<MeasuredCosts> costs;
  {
    const std::lock_guard lock(mutex_);
    known = sequences_.find(sequence);
    if (!known || !known->plan) return;
    costs = trials_.add(sequence.back(), times);
    reports_.on_trial(number, trials_.is_running(sequence.back()));
  }
  if (!costs) return;
  auto adjusted = std::make_shared<KnownSequence>(*known);
  planner_.adjust(*adjusted, *costs);  // may warn, and so wait for an interpreter
  const std::lock_guard lock(mutex_);
  // It may have been noted since what its replays depend on, which is for a plan that is no more.
  const Known now = sequences_.find(sequence);
  if (now && now->plan == known->plan) sequences_.replace(now, std::move(adjusted));
}

bool Session::wants_guarded(const Sequence& sequence) const {
  const std::lock_guard lock(mutex_);
  const Known known = sequences_.find(sequence);
  return known && !known->recording_plan.guarded;
}

// Recorders share what they follow, so a changed copy takes its place.
void Session::note_guarded(const Sequence& sequence, const tape::RecordingPlan& followed,
                           std::vector<tape::ValueId> values) {
  const std::lock_guard lock(mutex_);
  const Known known = sequences_.find(sequence);
  if (!known || known->recording_plan.retentions != followed.retentions) return;
  auto changed = std::make_shared<KnownSequence>(*known);
  changed->recording_plan.guarded =
      std::make_shared<const std::vector<tape::ValueId>>(std::move(values));
  sequences_.replace(known, std::move(changed));
}

void Session::replayed(std::int64_t number, const tape::Tape& tape) {
  const std::lock_guard lock(mutex_);
  reports_.replayed(number, tape.counts());
}

// A sequence is profiled again where another was expected.
bool Session::adds_nothing(const Known& before, const Profiled& profiled,
                           const plan::Graph& graph) const {
  if (!before || !before->plan || options_.verify == Verify::every_n_steps) return false;
  const auto is_same = [](const tape::ReplayMethod& a, const tape::ReplayMethod& b) {
    return a.formula == b.formula && a.joins == b.joins;
  };
  return num_passes(*before->graph) >= num_passes(graph) &&
         std::ranges::equal(*before->recording_plan.methods, profiled.methods, is_same) &&
         std::ranges::equal(before->graph->values, graph.values, {}, &plan::Value::must_keep,
                            &plan::Value::must_keep);
}

void Session::learn(const Profiled& profiled, plan::Graph graph) {
  bool is_first = false;
  Known before;
  {
    const std::lock_guard lock(mutex_);
    if (profiled.was_short_of_memory) {
      if (profiled.is_of_first_pass) ++num_short_profiles_;
      if (num_short_profiles_ < kMostShortProfiles) return;
    }
    schedule_.profiled(profiled.sequence.back());
    before = sequences_.find(profiled.sequence);
    if (adds_nothing(before, profiled, graph)) return activate(before);
    is_first = sequences_.is_empty();
    trials_.begin_again(profiled.sequence.back());
  }
  if (const std::string why = why_not_plannable(graph); !why.empty()) {
    return settle_unplannable(profiled.sequence, profiled.kept, why);
  }
  auto known = std::make_shared<KnownSequence>();
  known->graph = std::make_shared<const plan::Graph>(std::move(graph));
  known->device = profiled.device;
  known->recording_plan.sequence = std::make_shared<const Sequence>(profiled.sequence);
  known->recording_plan.calls = std::make_shared<const std::vector<std::int32_t>>(profiled.calls);
  known->recording_plan.methods =
      std::make_shared<const std::vector<tape::ReplayMethod>>(profiled.methods);
  if (before) {
    known->recording_overhead = before->recording_overhead;
    known->records_nothing = before->records_nothing;
  }
  planner_.plan(*known, is_first);
  remember(std::move(known));
}

void Session::settle(const Sequence& sequence, tape::Retentions kept, std::string why) {
  remember(sequence_as_kept(sequence, std::move(kept), std::move(why)));
}

void Session::settle_unplannable(const Sequence& sequence, tape::Retentions kept,
                                 const std::string& why) {
  if (!warned_of_unplannable_.exchange(true)) {
    TORCH_WARN(
        "GradRecomp cannot plan this op sequence; later steps keep what its first step kept: ",
        why);
  }
  settle(sequence, std::move(kept), "it cannot be planned: " + why);
}

void Session::never_asked(const Sequence& sequence, tape::Retentions kept) {
  const std::lock_guard lock(mutex_);
  if (sequence.empty() || sequences_.find(sequence)) return;
  if (!asked_.never_asked(sequence.back())) return;
  auto known =
      sequence_as_kept(sequence, std::move(kept), "no backward pass has asked it for anything");
  known->is_provisional = true;
  remember(std::move(known));
}

void Session::asked(const Sequence& sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence.empty()) return;
  asked_.asked(sequence.back());
  const Known known = sequences_.find(sequence);
  if (!known || !known->is_provisional) return;
  sequences_.erase(known);
}

void Session::remember(Known known) {
  const std::lock_guard lock(mutex_);
  sequences_.add(std::move(known));
}

/// Goes by `known`, whose plan is made again if it was forgotten.
void Session::activate(const Known& known) {
  if (!known->is_to_be_planned() || known->plan) return sequences_.activate(known);
  auto planned = std::make_shared<KnownSequence>(*known);
  planner_.plan(*planned, /*is_first=*/false);
  sequences_.replace(known, planned);
  sequences_.activate(std::move(planned));
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
