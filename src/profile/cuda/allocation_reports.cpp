// Has CUDA's allocator report to the steps that are profiled.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>

#include <mutex>

#include "gradrecomp/device/allocations.h"
#include "gradrecomp/export.h"

namespace gradrecomp::profile::cuda {
namespace {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::TraceEntry;

void report(const TraceEntry& entry) {
  const auto* pointer = reinterpret_cast<const void*>(entry.addr_);
  const c10::Device device(c10::kCUDA, entry.device_);
  if (entry.action_ == TraceEntry::ALLOC) device::report_allocated(pointer, entry.size_, device);
  if (entry.action_ == TraceEntry::FREE_REQUESTED) device::report_freed(pointer, device);
}

// The allocator registered for CUDA is always a CUDAAllocator. It is only asked through its virtual
// functions, so that a program with this library starts where LibTorch has no CUDA backend, too.
void follow_allocator() {
  auto* allocator = static_cast<CUDAAllocator*>(c10::getDeviceAllocator(c10::kCUDA));
  try {
    allocator->attachAllocatorTraceTracker(&report);
    allocator->attachOutOfMemoryObserver([](std::int64_t /*device*/, std::size_t /*asked*/,
                                            std::size_t /*total*/,
                                            std::size_t /*free*/) { device::report_shortage(); });
  } catch (const c10::Error& error) {
    TORCH_WARN("GradRecomp does not see what CUDA's allocator ", allocator->name(),
               " allocates, so peaks there are predicted too low. Use the native one. It said: ",
               error.what_without_backtrace());
  }
}

void begin() {
  static std::once_flag once;  // a tracer cannot be detached
  std::call_once(once, follow_allocator);
}

bool registered() {
  device::register_device_reports(&begin);
  return true;
}

}  // namespace
}  // namespace gradrecomp::profile::cuda

// Programs ask their linker for this name, or it would leave this file out.
extern "C" GRADRECOMP_API const bool gradrecomp_cuda_reports;
extern "C" const bool gradrecomp_cuda_reports = gradrecomp::profile::cuda::registered();
