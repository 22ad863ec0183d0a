#pragma once

namespace gradrecomp::test::host_device {

/// From now on each thread sticks to one of two ways to convolve, which round differently, and the
/// next thread takes the other. They forget when it ends.
void set_algorithms_by_thread(bool by_thread);

/// Gives LibTorch the device's convolutions.
void register_convolution();

}  // namespace gradrecomp::test::host_device
