#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Seconds of rounding `bytes` of float32 as kept values are, and of bringing them back: the least
/// of a few rounds. Waits for the device, which must be able to.
double time_rounding(c10::Device device, std::int64_t bytes);

}  // namespace gradrecomp::tape
