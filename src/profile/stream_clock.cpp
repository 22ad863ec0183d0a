#include "stream_clock.h"

#include <ATen/DeviceAccelerator.h>

#include "cuda_in_use.h"

namespace gradrecomp::profile {

StreamClock::Moment StreamClock::now() {
  if (!cuda_in_use()) return kNone;
  auto& event = events_.emplace_back(c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT);  // keeps time
  event.record(at::accelerator::getCurrentStream(at::accelerator::getDeviceIndex()));
  return static_cast<Moment>(events_.size() - 1);
}

double StreamClock::seconds_between(Moment from, Moment to) {
  if (from == kNone || to == kNone) return 0;
  events_[from].synchronize();
  events_[to].synchronize();
  return events_[from].elapsedTime(events_[to]) * 1e-3;
}

}  // namespace gradrecomp::profile
