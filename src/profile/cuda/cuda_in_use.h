#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "gradrecomp/version.h"

namespace gradrecomp::profile {

/// Whether something has been allocated on a CUDA device. An event on an unused device would make a
/// context there, with its memory. May be asked while the program ends, when LibTorch cannot be
/// asked for its accelerator any more.
inline bool cuda_in_use() {
  return c10::impl::hasDeviceGuardImpl(c10::kCUDA) &&
         c10::getDeviceAllocator(c10::kCUDA)->initialized();
}

}  // namespace gradrecomp::profile
