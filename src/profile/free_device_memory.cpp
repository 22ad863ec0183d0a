#include "profile/free_device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "tape/aten/capture.h"

namespace gradrecomp::profile {

void release_free_device_memory(c10::Device device) {
  if (device.is_cpu() || tape::is_capturing()) return;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator != nullptr && allocator->initialized()) allocator->emptyCache();
}

}  // namespace gradrecomp::profile
