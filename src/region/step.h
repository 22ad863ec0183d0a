#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arena/placed_step.h"
#include "region/device_times.h"
#include "region/session.h"
#include "tape/aten/capture.h"
#include "tape/aten/range.h"
#include "tape/aten/stopwatch.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

class ClosedStep;

/// One run of a region, from its first operator to its close.
class Step {
 public:
  /// A step under the plan of `session`, or profiled. A null session drops everything.
  explicit Step(std::shared_ptr<Session> session);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  /// The step that runs on this thread, or null. Gives up one that another thread has left to it.
  static Step* current() noexcept;
  /// Call it instead of the destructor on any thread but the one that records into it. That one
  /// then records nothing more, and gives the step up when it next looks for a step or ends.
  static void leave_to_its_thread(std::unique_ptr<Step> step) noexcept;
  /// Gives up the step that this thread has open and that can no longer be closed.
  static void give_up_current() noexcept;

  [[nodiscard]] const Session* session() const { return session_.get(); }
  void begin_stage(std::string_view name);
  /// Stops recording, drops, and waits for backward. `has_returned`: the code that it ran has let
  /// go of what was its own.
  void close(bool has_returned);

 private:
  tape::RecordingPlan left_plan(std::size_t call, std::uint64_t hash);
  [[nodiscard]] tape::RecordingPlan as_far_as_possible(tape::RecordingPlan plan) const;
  void record(const tape::RecordingPlan& plan);
  void begin_profile();
  void name_plan(const tape::RecordingPlan& plan);
  void place_blocks();
  void close_window(bool is_last = false);
  void note_tape_bytes();
  void tell_session(const Sequence& sequence, bool planned);
  void time(ClosedStep& step);
  void close_unrecorded();

  void give_up();

  std::atomic<bool> is_left_ = false;      // by who owned it
  std::atomic<bool> is_disowned_ = false;  // by its owner or its thread; the second destroys it
  std::shared_ptr<Session> session_;
  std::int64_t number_ = 0;                  // the session's, of this step
  bool is_captured_ = tape::is_capturing();  // into a graph, to be run later
  Session::StepStart start_;
  tape::Stopwatch open_for_;
  std::shared_ptr<DeviceTimes> device_times_;  ///< null unless it is timed, and runs on a device
  std::int64_t start_bytes_ = 0;  ///< that tensors of the host held, if it is not recorded
  std::shared_ptr<tape::Tape> tape_;
  std::shared_ptr<profile::StepLog> log_;
  std::unique_ptr<arena::PlacedStep> placed_;  ///< null unless it follows a plan
  std::unique_ptr<tape::Recorder> recorder_;   ///< null if it is not recorded
  std::optional<std::string> stage_;           // that has begun
  std::optional<tape::Range> stage_range_;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
