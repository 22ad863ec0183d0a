#include "fuzz/check/peaks.h"

#include "fuzz/world/device.h"

namespace gradrecomp::fuzzing {
namespace {

// No plan knows of tapes made in backward, nor of raw writes that a step without verification does
// not see, such as those to what has been read. Nor of copies of memory that was lent. What was
// recorded on another stream is given back when that has come so far.
bool is_predictable(const Outcome& plain) {
  return !plain.replays_in_backward && !plain.may_refuse && !plain.uses_streams;
}

}  // namespace

std::optional<Finding> unlike_predicted(const std::string& name, const Outcome& plain,
                                        const Region& region, const Outcome& actual) {
  // Without a plan no output needs a gradient, and backward never met the region.
  if (!is_predictable(plain) || !region.has_plan()) return std::nullopt;
  if (!region.last_step().followed_plan) {
    return Finding{name, "the step did not follow its plan: " + region.last_step().reason,
                   /*about_peak=*/true};
  }
  if (region.last_step().unplanned_bytes > 0) return std::nullopt;
  const auto predicted = region.plan().predicted_peak_bytes;
  const auto measured = actual.measured_peak_bytes;
  if (predicted == measured || may_hold_workspaces(measured - predicted)) return std::nullopt;
  return Finding{
      name + ", peak",
      "predicted " + std::to_string(predicted) + ", measured " + std::to_string(measured),
      /*about_peak=*/true};
}

}  // namespace gradrecomp::fuzzing
