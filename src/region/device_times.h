#pragma once

#include <c10/core/Device.h>

#include "profile/times/stream_clock.h"
#include "region/sequences/plan_trial.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// When a step ran on a device, by events on its streams. Nothing waits until times are asked for.
///
/// Threads: one at a time.
class DeviceTimes {
 public:
  /// For a step that begins.
  explicit DeviceTimes(c10::Device device) : device_(device), opens_(now()) {}

  void region_closes() { closes_ = now(); }
  void backward_begins() { backward_begins_ = now(); }
  /// Marks the begin of what a demand of backward sets off: replays, and waits for what comes back.
  void demand_begins() { demands_.push_back({now()}); }
  void demand_ends() { demands_.back().end = now(); }
  /// What the step took, whose backward pass ends now. Waits for the device.
  RecordedTimes times(std::int64_t num_replayed_ops);

 private:
  using Moment = profile::StreamClock::Moment;

  struct Span {
    Moment begin = profile::StreamClock::kNone;
    Moment end = profile::StreamClock::kNone;
  };

  Moment now();

  c10::Device device_;
  profile::StreamClock clock_;
  Moment opens_;
  Moment closes_ = profile::StreamClock::kNone;
  Moment backward_begins_ = profile::StreamClock::kNone;
  std::vector<Span> demands_;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
