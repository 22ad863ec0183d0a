#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "profile/times/stream_clock.h"
#include "region/sequences/plan_trial.h"
#include "tape/timer.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// When a step ran on a device, by events on its streams. Nothing waits until times are asked for.
///
/// Threads: one at a time.
class DeviceTimes final : public tape::Timer {
 public:
  /// For a step that begins.
  explicit DeviceTimes(c10::Device device) : device_(device), opens_(now()) {}

  void region_closes() { closes_ = now(); }
  void backward_begins() { backward_begins_ = now(); }
  void begins(tape::DeviceWork work) override { spans_[of(work)].push_back({now()}); }
  void ends(tape::DeviceWork work) noexcept override;
  /// What the step took, whose backward pass ends now. Waits for the device.
  /// None where the device keeps no time, or has failed.
  std::optional<RecordedCosts> times(std::int64_t num_replayed_ops);

 private:
  using Moment = profile::StreamClock::Moment;

  struct Span {
    Moment begin = profile::StreamClock::kNone;
    Moment end = profile::StreamClock::kNone;
  };

  static std::size_t of(tape::DeviceWork work) { return static_cast<std::size_t>(work); }
  Moment now();
  double seconds_of(tape::DeviceWork work);

  c10::Device device_;
  profile::StreamClock clock_;
  Moment opens_;
  Moment closes_ = profile::StreamClock::kNone;
  Moment backward_begins_ = profile::StreamClock::kNone;
  std::array<std::vector<Span>, 3> spans_;  // by the kind of work
  bool has_failed_ = false;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
