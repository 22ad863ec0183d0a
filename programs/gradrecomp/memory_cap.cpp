#include "memory_cap.h"

#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "bad_input.h"
#include "byte_size.h"

namespace gradrecomp::program {

MemoryCap::MemoryCap(c10::Device device, std::int64_t cap_bytes) {
  if (device.is_cpu()) {
    reject("--memory-cap", "device", "cpu", "one with memory of its own. Add --device cuda.");
  }
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(device);
  at::empty({1}, bytes);  // a device that nobody used yet does not tell what is free
  const auto free = c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first;
  const auto free_bytes = static_cast<std::int64_t>(free);
  if (cap_bytes > free_bytes) {
    reject("--memory-cap", "size", mebibytes(cap_bytes),
           "at most what is free, " + mebibytes(free_bytes) + ". Pass less.");
  }
  ballast_ = at::empty({free_bytes - cap_bytes}, bytes);
}

}  // namespace gradrecomp::program
