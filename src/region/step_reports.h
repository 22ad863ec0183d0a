#pragma once

#include <cstdint>
#include <string>

#include "gradrecomp/report.h"
#include "tape/tape.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// What the steps of a region report. Steps have numbers in the order in which they began, and what
/// is known of one comes late, so only the report of the last is kept.
class StepReports {
 public:
  [[nodiscard]] const StepReport& last() const { return last_; }
  /// That of the step, or of code that was to be one, which began last.
  [[nodiscard]] std::int64_t number() const { return number_; }

  void begin_step();
  /// Notes that code which was to be a step runs plainly.
  void passed_over(const char* reason);
  /// Leaves the report of a step that began later.
  void note(std::int64_t number, StepReport report);
  /// The same of a step whose region has closed. Returns what to warn of, if anything: that many in
  /// a row followed no plan.
  [[nodiscard]] std::string closed(std::int64_t number, StepReport report);
  /// Notes what a backward pass of that step has replayed.
  void replayed(std::int64_t number, const tape::Counts& counts);
  /// Notes whether the step's plan is still on trial.
  void on_trial(std::int64_t number, bool is_on_trial);

 private:
  void begin(StepReport report);
  [[nodiscard]] std::string warning_if_never_planned(const StepReport& report);

  StepReport last_;
  std::int64_t number_ = 0;
  std::int64_t last_step_ = 0;  // but for code that ran plainly
  std::int64_t reported_ = 0;   // the one that last_ is of
  std::int64_t num_unplanned_in_row_ = 0;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
