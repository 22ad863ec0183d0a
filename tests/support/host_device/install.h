#pragma once

#include <c10/core/Device.h>

namespace gradrecomp::test {

/// One of the two devices of host memory, number 0 or 1. The first call gives them to LibTorch,
/// which must come before the first backward pass: autograd then starts a thread for each device.
c10::Device installed_host_device(c10::DeviceIndex index = 0);

}  // namespace gradrecomp::test
