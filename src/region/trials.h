#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "region/sequence_planner.h"
#include "region/sequences/known_sequence.h"
#include "region/sequences/plan_trial.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// The trials of a region's plans, and which of its steps go unrecorded.
///
/// Threads: one at a time.
class Trials {
 public:
  /// How a step under a plan is to run.
  struct Turn {
    bool is_recorded = true;  ///< false: it runs as plain training does
    bool is_timed = false;    ///< for the trial of its plan
  };

  /// `planner` must outlive it.
  explicit Trials(const SequencePlanner& planner) : planner_(planner) {}

  /// For a step that begins under the plan of `known`.
  Turn begin_step(const KnownSequence& known);
  /// Notes that a recorded step ended.
  void ended(bool followed_plan);
  /// Notes that a step ended which was not recorded. `is_another`: not the expected one.
  void ended_unrecorded(bool is_another);
  /// Takes into account what a step took that was timed and not recorded.
  void add_unrecorded(std::uint64_t signature, const UnrecordedCosts& costs);
  /// Takes into account how long a step took that was timed and recorded. What its trial has found,
  /// if that is enough now.
  std::optional<MeasuredCosts> add(std::uint64_t signature, const RecordedCosts& times);
  /// Whether steps of that signature are timed.
  [[nodiscard]] bool is_running(std::uint64_t signature) const;
  /// Lets a trial begin anew that is running, as there is another plan.
  void begin_again(std::uint64_t signature);

 private:
  PlanTrial* trial_of(const KnownSequence& known);
  [[nodiscard]] bool goes_unrecorded(const KnownSequence& known, bool trial_records) const;

  const SequencePlanner& planner_;
  std::unordered_map<std::uint64_t, PlanTrial> trials_;  // by signature
  std::int64_t num_followed_in_row_ = 0;  // steps under their plans, whatever went unrecorded
  std::int64_t num_unrecorded_in_row_ = 0;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
