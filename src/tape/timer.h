#pragma once

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// What a device does for a tape, beside the step's own work.
enum class DeviceWork : std::uint8_t {
  demand,     ///< all before backward reads a value: replays and arrivals
  arrival,    ///< waits for a value that comes back
  departure,  ///< waits until a value has left, before its memory is used again
};

/// Told when such work is about to be enqueued, and when it has been. Work of one kind never begins
/// within the same kind.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual void begins(DeviceWork work) = 0;
  virtual void ends(DeviceWork work) noexcept = 0;  ///< also where the work has thrown
};

/// Tells a timer of the work that is enqueued in its scope.
class TimedWork {
 public:
  /// `timer` may be null.
  TimedWork(Timer* timer, DeviceWork work) : timer_(timer), work_(work) {
    if (timer_ != nullptr) timer_->begins(work_);
  }
  ~TimedWork() {
    if (timer_ != nullptr) timer_->ends(work_);
  }
  TimedWork(const TimedWork&) = delete;
  TimedWork& operator=(const TimedWork&) = delete;

 private:
  Timer* timer_;
  DeviceWork work_;
};

}  // namespace gradrecomp::tape
