#pragma once

namespace gradrecomp::test::host_device {

/// Gives LibTorch the device's dropout.
void register_dropout();

}  // namespace gradrecomp::test::host_device
