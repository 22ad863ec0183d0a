#pragma once

#include <c10/core/Device.h>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/host_link.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// How fast `device` and the host copy to each other, by two copies of 32 MiB the first time, kept
/// for later calls. Waits for the device. The CPU's copies are plain ones and overlap nothing.
/// Throws:  c10::OutOfMemoryError if there is no room for the copies.
GRADRECOMP_API plan::HostLink measured_host_link(c10::Device device);

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
