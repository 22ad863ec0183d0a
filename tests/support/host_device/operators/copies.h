#pragma once

namespace gradrecomp::test::host_device {

/// Gives LibTorch the kernels that copy on a device, between devices, and between device and host.
void register_copies();

}  // namespace gradrecomp::test::host_device
