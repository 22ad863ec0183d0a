#include "profile/times/stream_clock.h"

#include <ATen/DeviceAccelerator.h>

#include "profile/cuda/cuda_in_use.h"

namespace gradrecomp::profile {

StreamClock::Moment StreamClock::mark(const c10::Stream& stream) {
  auto& event = events_.emplace_back(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(stream);  // keeps time
  streams_.push_back(stream);
  return static_cast<Moment>(events_.size() - 1);
}

StreamClock::Moment StreamClock::now() {
  if (!cuda_in_use()) return kNone;
  return mark(at::accelerator::getCurrentStream(at::accelerator::getDeviceIndex()));
}

StreamClock::Moment StreamClock::now_after(Moment begin) {
  return begin == kNone ? kNone : mark(streams_[begin]);
}

double StreamClock::seconds_between(Moment from, Moment to) {
  if (from == kNone || to == kNone) return 0;
  events_[from].synchronize();
  events_[to].synchronize();
  return events_[from].elapsedTime(events_[to]) * 1e-3;
}

}  // namespace gradrecomp::profile
