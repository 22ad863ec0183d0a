#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "arena/placed_step.h"
#include "region/device_times.h"
#include "region/session.h"
#include "tape/aten/stopwatch.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// What a closed step has of its forward, besides the tape.
struct Recorded {
  Sequence sequence;
  std::vector<std::int32_t> calls = {};  ///< as in a recording plan
  tape::Retentions kept = {};            ///< what a profiled step kept
};

/// The remains of a step after its region closed, as long as its tape is there. Opens the replay
/// phase when a backward pass first asks the tape for something, and closes it when the pass ends.
/// A profile goes on until nothing is left to ask for, or the next step begins, and is planned for
/// after each pass.
class ClosedStep : public std::enable_shared_from_this<ClosedStep> {
 public:
  /// `session` is null for a dropping step, `log` unless the step is profiled, `placed` unless its
  /// blocks are placed. `number` is what the session calls the step.
  ClosedStep(std::shared_ptr<Session> session, std::int64_t number,
             std::shared_ptr<profile::StepLog> log, std::unique_ptr<arena::PlacedStep> placed,
             Recorded recorded);
  /// Tells the session if no backward pass has asked for anything.
  ~ClosedStep();
  ClosedStep(const ClosedStep&) = delete;
  ClosedStep& operator=(const ClosedStep&) = delete;

  /// Makes it one that is timed, for the trial of its plan. Call it before any backward pass.
  void time(double forward_seconds) { forward_seconds_ = forward_seconds; }
  /// The same for one on a device.
  void time(std::shared_ptr<DeviceTimes> device_times) { device_times_ = std::move(device_times); }
  /// Called under the tape's lock by the backward pass of that number.
  void backward_begins(tape::Tape& tape);

 private:
  class PassEnd;

  /// Returns what the step took, if it is timed and this was its only pass.
  std::optional<RecordedCosts> backward_ends(tape::Tape& tape, int pass);
  void backward_failed(tape::Tape& tape, int pass);
  void let_go_of(std::shared_ptr<tape::Tape> tape, RecordedCosts times);
  using Lock = std::unique_lock<std::recursive_mutex>;
  /// Plans for the passes so far; `ends`: there will be no other.
  void plan(tape::Tape& tape, Lock lock, bool ends);
  [[nodiscard]] std::optional<RecordedCosts> times(tape::Tape& tape);
  void begin_to_time();
  void wait_for_another_pass(tape::Tape& tape);
  void next_step_begins(tape::Tape& tape);
  void stop_logging(tape::Tape& tape);
  void stop_placing();

  std::shared_ptr<Session> session_;
  std::int64_t number_;
  std::shared_ptr<profile::StepLog> log_;
  std::unique_ptr<arena::PlacedStep> placed_;
  Recorded recorded_;
  std::set<int> passes_;                       // that have asked and not ended, by number
  int num_passes_ = 0;                         // that have ended, while it is profiled or timed
  bool was_asked_ = false;                     // also by a pass that failed
  std::optional<double> forward_seconds_;      // if it is timed
  std::optional<tape::Stopwatch> backward_;    // the same, since its first pass began
  std::shared_ptr<DeviceTimes> device_times_;  // if it is timed, on a device
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
