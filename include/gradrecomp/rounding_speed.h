#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "gradrecomp/export.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// Bytes of float32 that `device` rounds to bfloat16 and back in a second, by 8 MiB the first time,
/// kept for later calls. Nothing where the device has none of GradRecomp's kernels. Waits for the
/// device.
/// Throws:  c10::OutOfMemoryError if there is no room for that.
GRADRECOMP_API std::optional<double> measured_rounding_speed(c10::Device device);

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
