#include "region/device_times.h"

#include <c10/util/Exception.h>

#include <exception>

#include "tape/aten/stream_scope.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

DeviceTimes::Moment DeviceTimes::now() { return clock_.mark(tape::current_stream_of(device_)); }

// Called while an error of the device's may be on its way.
void DeviceTimes::ends(tape::DeviceWork work) noexcept {
  try {
    spans_[of(work)].back().end = now();
  } catch (const std::exception&) {
    has_failed_ = true;
  }
}

std::optional<RecordedCosts> DeviceTimes::times(std::int64_t num_replayed_ops) {
  if (has_failed_) return std::nullopt;
  try {
    const double departures = seconds_of(tape::DeviceWork::departure);
    const double arrivals = seconds_of(tape::DeviceWork::arrival);
    const double demands = seconds_of(tape::DeviceWork::demand);
    return RecordedCosts{.forward_seconds = clock_.seconds_between(opens_, closes_) - departures,
                         .backward_seconds = clock_.seconds_between(backward_begins_, now()),
                         .hook_seconds = demands,  // what else hooks do takes no time of the device
                         .replay_seconds = demands - arrivals,
                         .arrival_seconds = arrivals,
                         .departure_seconds = departures,
                         .num_replayed_ops = num_replayed_ops};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

double DeviceTimes::seconds_of(tape::DeviceWork work) {
  double seconds = 0;
  for (const Span& span : spans_[of(work)]) seconds += clock_.seconds_between(span.begin, span.end);
  return seconds;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
