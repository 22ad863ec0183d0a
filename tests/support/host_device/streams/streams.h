#pragma once

#include <c10/core/Stream.h>

namespace gradrecomp::test::host_device {

constexpr c10::DeviceIndex kNumDevices = 2;

/// This thread's device.
c10::Device current_device();
/// `device`, or this thread's if it has no index.
c10::Device with_index(c10::Device device);
/// This thread's stream on `device`.
c10::Stream current_stream(c10::Device device);

/// Gives LibTorch the device's streams and events.
void register_guard();

}  // namespace gradrecomp::test::host_device
