#pragma once

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "support/host_device/host_device.h"

namespace gradrecomp::test {

inline c10::impl::VirtualGuardImpl devices() {
  return c10::impl::VirtualGuardImpl(c10::kPrivateUse1);
}

inline c10::Stream side_stream(c10::Device device = kHostDevice) {
  return devices().getStreamFromGlobalPool(device);
}

inline c10::Stream main_stream(c10::Device device = kHostDevice) {
  return devices().getDefaultStream(device);
}

/// Lets `second` wait for what `first` has been given so far.
inline void wait_for(const c10::Stream& first, const c10::Stream& second) {
  c10::Event event(first.device_type());
  event.record(first);
  event.block(second);
}

}  // namespace gradrecomp::test
