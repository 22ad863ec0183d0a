#include "region/closed_step.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gradrecomp/memory_meter.h"
#include "profile/free_device_memory.h"
#include "tape/replay/replayer.h"
#include "tape/streams.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constexpr int kMostPasses = 4;  // a profile is of

/// Per op, what verification found; what a later step on the same op sequence may go by.
std::vector<tape::ReplayMethod> methods_of(const tape::Tape& tape) {
  std::vector<tape::ReplayMethod> methods;
  for (const tape::Op& op : tape.ops()) methods.push_back(op.method);
  return methods;
}

}  // namespace

/// Comes with a backward pass. The engine calls it at the end of one that succeeds, and of one that
/// fails lets go of it.
class ClosedStep::PassEnd {
 public:
  PassEnd(std::shared_ptr<ClosedStep> step, std::shared_ptr<tape::Tape> tape, int pass)
      : step_(std::move(step)), tape_(std::move(tape)), pass_(pass) {}
  ~PassEnd() {
    if (!tape_) return;
    try {
      step_->backward_failed(*tape_, pass_);
    } catch (const std::exception&) {
      return;  // what replays have made stays until the tape goes
    }
  }
  PassEnd(const PassEnd&) = delete;
  PassEnd& operator=(const PassEnd&) = delete;

  // The pass may have released the graph, which leaves the tape to us alone.
  void come() {
    auto tape = std::exchange(tape_, nullptr);
    const auto times = step_->backward_ends(*tape, pass_);
    if (times) step_->let_go_of(std::move(tape), *times);
  }

 private:
  std::shared_ptr<ClosedStep> step_;
  std::shared_ptr<tape::Tape> tape_;
  int pass_;
};

ClosedStep::ClosedStep(std::shared_ptr<Session> session, std::int64_t number,
                       std::shared_ptr<profile::StepLog> log,
                       std::unique_ptr<arena::PlacedStep> placed, Recorded recorded)
    : session_(std::move(session)),
      number_(number),
      log_(std::move(log)),
      placed_(std::move(placed)),
      recorded_(std::move(recorded)) {}

ClosedStep::~ClosedStep() {
  if (!session_ || !log_ || was_asked_) return;
  session_->never_asked(recorded_.sequence, std::move(recorded_.kept));
}

void ClosedStep::backward_begins(tape::Tape& tape) {
  if (!was_asked_) begin_to_time();
  was_asked_ = true;
  if (session_) session_->asked(recorded_.sequence);
  if (log_) log_->backward_begins(tape);
  const int pass = torch::autograd::get_current_graph_task_id();
  if (!passes_.insert(pass).second) return;  // the pass resumes after another one
  const auto end = std::make_shared<PassEnd>(shared_from_this(), tape.shared_from_this(), pass);
  torch::autograd::Engine::get_default_engine().queue_callback([end] { end->come(); });
}

void ClosedStep::begin_to_time() {
  if (forward_seconds_) backward_.emplace();
  if (device_times_) device_times_->backward_begins();
}

// Several threads may run backward through one step, so both hold its tape's lock.
std::optional<RecordedCosts> ClosedStep::backward_ends(tape::Tape& tape, int pass) {
  auto lock = tape.lock();
  passes_.erase(pass);
  tape::Replayer(tape).drop_cached();
  tape::Replayer(tape).check_devices();
  if (!session_) return std::nullopt;
  session_->replayed(number_, tape);
  if (!tape.has_handles()) stop_placing();
  ++num_passes_;
  if (!log_) return times(tape);
  log_->backward_ends(tape);
  const bool is_first = num_passes_ == 1;
  // A pass that another runs in itself leaves that unfinished.
  const bool ends = !tape.has_handles() || (passes_.empty() && num_passes_ >= kMostPasses);
  if (is_first && !ends) wait_for_another_pass(tape);
  if (ends || num_passes_ <= kMostPasses) plan(tape, std::move(lock), ends);
  return std::nullopt;
}

// What replays have made is made again if the program tries once more.
void ClosedStep::backward_failed(tape::Tape& tape, int pass) {
  const auto lock = tape.lock();
  passes_.erase(pass);
  tape::Replayer(tape).drop_cached();
  tape.backward().timer = nullptr;
  backward_.reset();
  device_times_ = nullptr;
}

// To free a tape is part of what recording costs. The graph that backward has just gone through
// does not hold it any more, unless it is retained.
void ClosedStep::let_go_of(std::shared_ptr<tape::Tape> tape, RecordedCosts times) {
  tape::Stopwatch stopwatch;
  tape.reset();
  if (!device_times_) times.release_seconds = stopwatch.seconds();  // else the device works on
  session_->timed(number_, recorded_.sequence, times);
}

void ClosedStep::plan(tape::Tape& tape, Lock lock, bool ends) {
  auto graph = log_->graph_so_far(tape, recorded_.sequence.back());
  const Session::Profiled profiled{.sequence = recorded_.sequence,
                                   .calls = recorded_.calls,
                                   .methods = methods_of(tape),
                                   .kept = recorded_.kept,
                                   .device = tape::device_of(tape),
                                   .was_short_of_memory = tape.findings().verification_was_short,
                                   .is_of_first_pass = num_passes_ == 1};
  if (ends) stop_logging(tape);
  lock.unlock();
  session_->learn(profiled, std::move(graph));
  if (!ends) return;
  // What a followed step does not need.
  release_free_host_memory();
  profile::release_free_device_memory(profiled.device);
}

/// None unless it is timed and went backward once, in one piece.
std::optional<RecordedCosts> ClosedStep::times(tape::Tape& tape) {
  const bool is_timed = backward_ || device_times_;
  if (!is_timed || num_passes_ != 1 || !passes_.empty() || tape.has_handles()) return std::nullopt;
  tape.backward().timer = nullptr;  // a later pass is not the trial's
  if (device_times_) return device_times_->times(tape.counts().replayed_ops);
  return RecordedCosts{.forward_seconds = *forward_seconds_,
                       .backward_seconds = backward_->seconds(),
                       .hook_seconds = tape.backward().hook_seconds,
                       .replay_seconds = tape.counts().replay_seconds,
                       .num_replayed_ops = tape.counts().replayed_ops,
                       .tape_bytes = tape.counts().tape_bytes};
}

void ClosedStep::wait_for_another_pass(tape::Tape& tape) {
  session_->at_next_step([step = weak_from_this(), asked = tape.weak_from_this()] {
    const auto held = asked.lock();
    const auto closed = step.lock();
    if (held && closed) closed->next_step_begins(*held);
  });
}

void ClosedStep::next_step_begins(tape::Tape& tape) {
  const auto lock = tape.lock();
  if (!log_) return;
  stop_logging(tape);
  release_free_host_memory();
}

// The steps that follow lie elsewhere than the one whose blocks were logged.
void ClosedStep::stop_placing() {
  if (placed_ && placed_->complete()) release_free_host_memory();
  placed_ = nullptr;
}

void ClosedStep::stop_logging(tape::Tape& tape) {
  log_->stop();
  log_ = nullptr;
  tape.observe(nullptr);
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
