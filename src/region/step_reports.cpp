#include "region/step_reports.h"

#include <c10/util/Exception.h>

#include <utility>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {
constexpr std::int64_t kManyUnplanned = 20;
}  // namespace

void StepReports::begin(StepReport report) {
  reported_ = ++number_;
  last_ = std::move(report);
}

void StepReports::begin_step() {
  begin({});
  last_step_ = number_;
}

void StepReports::passed_over(const char* reason) { begin({.reason = reason}); }

void StepReports::note(std::int64_t number, StepReport report) {
  if (number < last_step_) return;
  reported_ = number;
  last_ = std::move(report);
}

std::string StepReports::closed(std::int64_t number, StepReport report) {
  std::string warning = warning_if_never_planned(report);
  note(number, std::move(report));
  return warning;
}

std::string StepReports::warning_if_never_planned(const StepReport& report) {
  num_unplanned_in_row_ = report.followed_plan ? 0 : num_unplanned_in_row_ + 1;
  if (num_unplanned_in_row_ != kManyUnplanned) return {};
  return c10::str("GradRecomp: a region has followed no plan for ", kManyUnplanned,
                  " steps. Gradients are right, and some memory is saved, but the budget is not "
                  "kept. Reason for the last step: ",
                  report.reason, report.reason.ends_with('.') ? "" : ".");
}

void StepReports::replayed(std::int64_t number, const tape::Counts& counts) {
  if (number != reported_) return;
  last_.num_replayed_ops = counts.replayed_ops;
  last_.num_substituted_ops = counts.substituted_ops;
  last_.replay_seconds = counts.replay_seconds;
  last_.offloaded_bytes = counts.offloaded_bytes;
  last_.rounded_bytes = counts.rounded_bytes;
  last_.unplanned_bytes = counts.unplanned_bytes;
  last_.tape_bytes = counts.tape_bytes;
}

void StepReports::on_trial(std::int64_t number, bool is_on_trial) {
  if (number == reported_) last_.on_trial = is_on_trial;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
