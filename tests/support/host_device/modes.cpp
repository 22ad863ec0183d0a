#include "modes.h"

#include "memory/allocator.h"
#include "memory/pinned_memory.h"
#include "operators/convolution.h"
#include "operators/kernels.h"
#include "streams/queue.h"

namespace gradrecomp::test {

AsynchronousDevice::AsynchronousDevice(std::uint64_t seed) {
  const std::lock_guard lock(host_device::mutex());
  TORCH_CHECK(!host_device::is_asynchronous(), "AsynchronousDevice: there is one already");
  host_device::Scheduler::get().begin(seed);
}

AsynchronousDevice::~AsynchronousDevice() {
  const std::lock_guard lock(host_device::mutex());
  host_device::allocator().emptyCache();
  host_device::Scheduler::get().end();
}

AlgorithmsByThread::AlgorithmsByThread() { host_device::set_algorithms_by_thread(true); }

AlgorithmsByThread::~AlgorithmsByThread() { host_device::set_algorithms_by_thread(false); }

KernelsOfDevice::KernelsOfDevice() : KernelsOfDevice(host_device::kernel_table()) {}

KernelsOfDevice::KernelsOfDevice(const kernels::Table* table) {
  kernels::register_table(c10::kPrivateUse1, table);
}

KernelsOfDevice::~KernelsOfDevice() { kernels::register_table(c10::kPrivateUse1, nullptr); }

NoPinnedMemory::NoPinnedMemory() { host_device::pinned_memory().refuse(true); }

NoPinnedMemory::~NoPinnedMemory() { host_device::pinned_memory().refuse(false); }

FailingAllocation::FailingAllocation(std::int64_t count) {
  host_device::allocator().fail_after(count);
}

FailingAllocation::~FailingAllocation() { host_device::allocator().fail_no_more(); }

bool FailingAllocation::has_failed() { return host_device::allocator().has_failed(); }

void poison_host_device_with(std::uint8_t byte) { host_device::allocator().set_poison(byte); }

}  // namespace gradrecomp::test
