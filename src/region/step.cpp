#include "region/step.h"

#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "profile/counting_allocator.h"
#include "region/closed_step.h"
#include "tape/own_work.h"
#include "tape/record/tape_bytes.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constinit thread_local Step* current_step = nullptr;

struct EndOfThread {
  ~EndOfThread() { Step::give_up_current(); }
};

tape::RecordingPlan drop_everything() {
  static const auto* nothing =
      new auto(std::make_shared<const tape::Retentions>());  // graphs may outlive static objects
  return {nullptr, *nothing};
}

/// The values that the tape holds as it is sealed, in the form of a recording plan.
tape::Retentions retentions_of(const tape::Tape& tape) {
  tape::Retentions retentions;
  for (const tape::Value& value : tape.values()) {
    const bool is_kept = value.hold == tape::Hold::kept || value.hold == tape::Hold::away;
    retentions.push_back(tape::retention(value.must_keep, is_kept));
  }
  for (const tape::Op& op : tape.ops()) {
    if (op.name() != tape::kUnseenWrite) continue;
    for (const tape::Read& read : op.reads) {
      const bool is_made_here = tape.values()[read.value].producer >= 0;
      if (is_made_here) tape::note_as_written(retentions[read.value]);
    }
  }
  return retentions;
}

}  // namespace

Step::Step(std::shared_ptr<Session> session)
    : session_(std::move(session)), tape_(std::make_shared<tape::Tape>()) {
  tape::touch(tape_.get());
  if (session_) {
    tape_->guard(session_->options().guard);
    session_->next_step_begins();
  }
  start_ = session_ ? session_->begin_step(!is_captured_) : Session::StepStart{drop_everything()};
  if (session_) number_ = session_->step_number();
  if (start_.turn.is_recorded) {
    record(as_far_as_possible(start_.plan));
  } else {
    start_bytes_ = profile::cpu_counter().current_bytes;
  }
  current_step = this;
  [[maybe_unused]] thread_local const EndOfThread end_of_thread;
}

void Step::record(const tape::RecordingPlan& plan) {
  if (start_.turn.is_timed && !start_.device.is_cpu()) {
    device_times_ = std::make_shared<DeviceTimes>(start_.device);
    tape_->backward().timer = device_times_;
  }
  tape_->backward().is_timed = start_.turn.is_timed && !device_times_;
  if (plan.retentions == nullptr && !is_captured_) begin_profile();
  name_plan(plan);
  if (session_ && plan.retentions != nullptr && !is_captured_) place_blocks();
  recorder_ = std::make_unique<tape::Recorder>(
      tape_, plan, [this](std::size_t call, std::uint64_t hash) { return left_plan(call, hash); });
  if (session_) {
    if (session_->has_substitutes()) recorder_->take_apart();
    if (session_->verifies() && !is_captured_) recorder_->windows().verify_each();
    // A captured step cannot be verified, so its values are kept where no plan says otherwise.
    if (session_->options().policy == plan::Policy("keep_all") || is_captured_)
      recorder_->windows().keep_saved();
    recorder_->before_op = [this] {
      if (!recorder_->in_window_mode()) return;
      const bool is_full = recorder_->windows().is_full(session_->options().window_bytes);
      if (is_full && recorder_->windows().may_close()) close_window();
    };
  }
  recorder_->is_left = &is_left_;
}

Step::~Step() {
  if (current_step == this) give_up();
}

void Step::give_up() {
  current_step = nullptr;
  stage_range_.reset();
  // The region has failed. What graph there is may yet go backward, in memory written since.
  recorder_.reset();
  placed_ = nullptr;
  tape_->observe(nullptr);
  tape_->seal();
  const auto step = std::make_shared<ClosedStep>(nullptr, number_, nullptr, nullptr, Recorded());
  tape_->backward().begins = [step](tape::Tape& tape) { step->backward_begins(tape); };
  if (session_) session_->gave_up(number_, log_ != nullptr);
}

void Step::leave_to_its_thread(std::unique_ptr<Step> step) noexcept {
  step->is_left_ = true;
  Step* left = step.release();
  if (left->is_disowned_.exchange(true)) delete left;
}

void Step::give_up_current() noexcept {
  Step* step = current_step;
  if (step == nullptr) return;
  step->give_up();
  if (step->is_disowned_.exchange(true)) delete step;
}

Step* Step::current() noexcept {
  if (current_step != nullptr && current_step->is_left_) give_up_current();
  return current_step;
}

void Step::begin_profile() {
  log_ = profile::StepLog::begin(tape_);
  tape_->observe(log_);
  // A step that verifies also compares contents whole.
  if (session_->verifies() && session_->options().guard != Guard::off) {
    tape_->guard(Guard::whole);
  }
  // Autograd saves an op's inputs before the op is seen, also those of the very first.
  for (tape::ValueId id = 0; id < static_cast<tape::ValueId>(tape_->values().size()); ++id) {
    for (int i = 0; i < tape_->values()[id].num_handles; ++i) {
      log_->saved(*tape_, id, c10::ScalarType::Undefined);
    }
  }
}

void Step::name_plan(const tape::RecordingPlan& plan) {
  const bool planned = session_ != nullptr && plan.retentions != nullptr;
  tape_->name_plan(planned ? session_->plan_name() : nullptr);
}

void Step::place_blocks() {
  auto addresses = profile::uses_host_arena() ? session_->addresses() : nullptr;
  if (addresses) placed_ = std::make_unique<arena::PlacedStep>(std::move(addresses));
}

/// A graph that is captured runs later, when host memory may hold something else, so nothing goes
/// there; nor is anything rounded then.
tape::RecordingPlan Step::as_far_as_possible(tape::RecordingPlan plan) const {
  if (is_captured_) plan.absences = nullptr;
  return plan;
}

tape::RecordingPlan Step::left_plan(std::size_t call, std::uint64_t hash) {
  placed_ = nullptr;
  auto plan = as_far_as_possible(session_->leave_plan(call, hash));
  name_plan(plan);
  // Only a log of the whole step makes a graph; a step that leaves later is profiled next time.
  if (plan.retentions == nullptr && call == 0 && !is_captured_) {
    begin_profile();
    if (stage_) recorder_->begin_stage(log_->stage(*stage_));
  }
  return plan;
}

void Step::begin_stage(std::string_view name) {
  if (!recorder_) return;
  // Where stages are single layers, to end a window with each would keep all that crosses.
  const bool ends_window = recorder_->in_window_mode() && session_->options().window_bytes;
  if (ends_window && recorder_->windows().may_close()) close_window();
  stage_ = name;
  if (log_) {
    const bool comes_late = !log_->has_stages() && !tape_->values().empty();
    if (comes_late) log_->stage(profile::StepLog::kUnnamedStage);  // what has run is of none yet
    recorder_->begin_stage(log_->stage(std::string(name)));
  }
  stage_range_.reset();
  stage_range_.emplace("GradRecomp: " + std::string(name));
}

void Step::close_window(bool is_last) {
  if (log_) log_->look_for_deaths(*tape_);
  const tape::OpId first = recorder_->windows().first_op();
  const auto times = recorder_->close_window(is_last);
  if (log_) log_->add_replay_times(first, times);
}

void Step::close(bool has_returned) {
  if (!recorder_) return close_unrecorded();
  stage_range_.reset();
  if (recorder_->in_window_mode()) close_window(true);
  recorder_->region_ends();
  const Sequence sequence = recorder_->plan().sequence();
  auto calls = log_ ? recorder_->plan().calls() : std::vector<std::int32_t>();
  const bool planned = recorder_->plan().is_followed_to_the_end();
  if (!planned) {
    placed_ = nullptr;
    tape_->backward().timer = nullptr;
  }
  if (planned && session_->wants_guarded(sequence)) {
    session_->note_guarded(sequence, *recorder_->plan(), recorder_->plan().values_to_guard());
  }
  recorder_.reset();
  current_step = nullptr;
  if (log_) log_->look_for_deaths(*tape_);
  auto kept = log_ ? retentions_of(*tape_) : tape::Retentions();
  const bool is_profile = session_ && log_ && !sequence.empty();
  const bool is_done = is_profile && !tape_->has_handles();
  if (has_returned) tape_->share_what_is_held();
  tape_->seal();
  // Before the session is told, which may plan, and fail.
  if (!is_done && (log_ == nullptr || !sequence.empty())) {
    const auto step =
        std::make_shared<ClosedStep>(session_, number_, log_, std::move(placed_),
                                     Recorded{sequence, std::move(calls), std::move(kept)});
    if (planned && start_.turn.is_timed) time(*step);
    tape_->backward().begins = [step](tape::Tape& tape) { step->backward_begins(tape); };
  }
  if (session_) tell_session(sequence, planned);
  if (is_done && tape_->backward().went_early) {
    session_->settle_unplannable(sequence, std::move(kept), Session::kBackwardInside);
  } else if (is_done) {
    session_->settle(sequence, std::move(kept), "nothing in it is saved for backward");
  }
}

void Step::time(ClosedStep& step) {
  if (!device_times_) return step.time(open_for_.seconds());
  device_times_->region_closes();
  step.time(std::move(device_times_));
}

void Step::close_unrecorded() {
  current_step = nullptr;
  const auto growth = profile::cpu_counter().current_bytes - start_bytes_;
  session_->closed_unrecorded(number_, start_, open_for_.seconds(), growth);
}

void Step::note_tape_bytes() {
  const auto lock = tape_->lock();
  tape_->counts().tape_bytes = tape::bytes_of(*tape_);
}

void Step::tell_session(const Sequence& sequence, bool planned) {
  note_tape_bytes();
  const char* const why = "it was profiled, to plan for those that follow";
  session_->closed(number_,
                   {.profiled = log_ != nullptr,
                    .followed_plan = planned,
                    .reason = log_ ? why : "",
                    .on_trial = planned && start_.turn.is_timed,
                    .num_ops = static_cast<std::int64_t>(tape_->ops().size()),
                    .num_unrecorded_calls = tape_->counts().unrecorded_calls,
                    .tape_bytes = tape_->counts().tape_bytes},
                   sequence);
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
