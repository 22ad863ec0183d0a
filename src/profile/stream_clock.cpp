#include "stream_clock.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace gradrecomp::profile {
namespace {

// An event on a device that nobody uses would make a context there, with its memory.
bool cuda_in_use() {
  return at::getAccelerator() == c10::kCUDA && c10::getDeviceAllocator(c10::kCUDA)->initialized();
}

}  // namespace

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
