#pragma once

#include <c10/core/Device.h>

#include "gradrecomp/version.h"

namespace gradrecomp::profile {

/// Gives memory of `device` that is free, and that LibTorch's allocator keeps for later tensors,
/// back to it, once its work is done. Does nothing on the CPU, while work is captured into a graph,
/// and where the allocator has no way to.
void release_free_device_memory(c10::Device device);

}  // namespace gradrecomp::profile
