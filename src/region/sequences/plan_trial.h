#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// What a step took that was recorded and went backward once.
struct RecordedCosts {
  double forward_seconds = 0;    ///< while its region was open
  double backward_seconds = 0;   ///< from the first demand to the end of the pass
  double hook_seconds = 0;       ///< of these, spent on what autograd asks of the tape
  double replay_seconds = 0;     ///< of these again, in replays
  double release_seconds = 0;    ///< after the pass, to free what was recorded
  double arrival_seconds = 0;    ///< on a device, of hooks: waiting for values that come back
  double departure_seconds = 0;  ///< on a device, beside all these: for values to leave
  std::int64_t num_replayed_ops = 0;
  std::int64_t tape_bytes = 0;  ///< of heap, for the recording
};

/// What a step took that was not recorded.
struct UnrecordedCosts {
  double forward_seconds = 0;     ///< while its region was open
  std::int64_t growth_bytes = 0;  ///< that its region left behind
};

/// What a followed plan costs by the clock, and in memory that no plan counts.
struct MeasuredCosts {
  double step_seconds = 0;       ///< of the plain step, forward and backward
  double recording_seconds = 0;  ///< beyond it and beyond replays; 0 where that was not measured
  double replay_seconds = 0;
  double arrival_seconds = 0;    ///< waiting for values that come back
  double departure_seconds = 0;  ///< and for values to leave
  double num_replayed_ops = 0;
  std::int64_t tape_bytes = 0;

  [[nodiscard]] double recording_overhead() const { return recording_seconds / step_seconds; }
  [[nodiscard]] double replay_overhead() const { return replay_seconds / step_seconds; }
  [[nodiscard]] double waiting_overhead() const {
    return (arrival_seconds + departure_seconds) / step_seconds;
  }
};

/// Times the first steps that follow a plan, and says what it costs.
///
/// The first few are recorded. What recording costs is seen only beside steps that are not: where
/// it may matter, and a step may go without, these come in turn with recorded ones after that.
class PlanTrial {
 public:
  static constexpr int kNumFirst = 3;  ///< recorded steps
  static constexpr int kMostPairs = 3;
  static constexpr int kMostSteps = 16;  ///< some may be of no use

  /// `compares`: with steps that are not recorded.
  explicit PlanTrial(bool compares) : compares_(compares) {}

  /// Notes that a step begins. Whether it is to be recorded.
  bool begin_step();
  [[nodiscard]] bool is_over() const { return is_over_; }
  void add(const RecordedCosts& times);
  void add_unrecorded(const UnrecordedCosts& costs);
  /// What it found, once: when it has seen enough. A plan that costs several times `max_overhead`
  /// is seen through early.
  std::optional<MeasuredCosts> conclude(double max_overhead);

 private:
  /// Seconds while the region is open.
  struct Forward {
    double recorded;
    double plain;
  };

  [[nodiscard]] Forward forward() const;
  [[nodiscard]] double unrecorded_seconds() const;
  [[nodiscard]] MeasuredCosts costs() const;

  bool compares_;
  bool is_over_ = false;
  int num_begun_ = 0;
  std::vector<RecordedCosts> recorded_;
  std::vector<UnrecordedCosts> unrecorded_;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
