#include "workload/memory_cap.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "bad_input.h"
#include "format.h"

namespace gradrecomp::program {
namespace {

// Libraries for convolutions and products take memory outside tensors when they are first used.
// A step under the cap is not to pay for that.
void load_libraries(c10::Device device) {
  const auto image = at::ones({1, 8, 8, 8}, at::TensorOptions().device(device));
  at::conv2d(image, image);
  at::matmul(image, image);
}

}  // namespace

MemoryCap::MemoryCap(c10::Device device, std::int64_t cap_bytes) {
  if (device.is_cpu()) {
    reject("--memory-cap", "device", "cpu", "one with memory of its own. Add --device cuda.");
  }
  load_libraries(device);  // also, an unused device does not tell what is free
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(device);
  const auto free = c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first;
  const auto free_bytes = static_cast<std::int64_t>(free);
  if (cap_bytes > free_bytes) {
    reject("--memory-cap", "size", mebibytes(cap_bytes),
           "at most what is free, " + mebibytes(free_bytes) + ". Pass less.");
  }
  ballast_ = at::empty({free_bytes - cap_bytes}, bytes);
}

}  // namespace gradrecomp::program
