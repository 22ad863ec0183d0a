#include "profile/cuda_in_use.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace gradrecomp::profile {

bool cuda_in_use() {
  return at::getAccelerator() == c10::kCUDA && c10::getDeviceAllocator(c10::kCUDA)->initialized();
}

}  // namespace gradrecomp::profile
