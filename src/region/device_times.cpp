#include "region/device_times.h"

#include "tape/aten/stream_scope.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

DeviceTimes::Moment DeviceTimes::now() { return clock_.mark(tape::current_stream_of(device_)); }

RecordedTimes DeviceTimes::times(std::int64_t num_replayed_ops) {
  RecordedTimes times{.forward_seconds = clock_.seconds_between(opens_, closes_),
                      .backward_seconds = clock_.seconds_between(backward_begins_, now()),
                      .num_replayed_ops = num_replayed_ops};
  for (const Span& demand : demands_) {
    times.replay_seconds += clock_.seconds_between(demand.begin, demand.end);
  }
  times.hook_seconds = times.replay_seconds;  // what else hooks do takes no time of the device
  return times;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
