#pragma once

#include <cstdint>

#include "gradrecomp/kernels/table.h"

namespace gradrecomp::test {

/// In its scope the devices do their work as late as something waits for it or, with another seed
/// than 0, at moments that the seed chooses. Memory has pools per stream, and is poisoned when it
/// is allocated. So what does not wait for what it needs, or frees too early, gets other bits.
///
/// What work throws is thrown where the host next waits. The end waits for all work too, and ends
/// the process if that throws.
class AsynchronousDevice {
 public:
  explicit AsynchronousDevice(std::uint64_t seed = 0);
  ~AsynchronousDevice();
  AsynchronousDevice(const AsynchronousDevice&) = delete;
  AsynchronousDevice& operator=(const AsynchronousDevice&) = delete;
};

/// In its scope convolutions of the device round otherwise on every second thread, as cuDNN may,
/// which keeps its choice of algorithms by thread.
class AlgorithmsByThread {
 public:
  AlgorithmsByThread();
  ~AlgorithmsByThread();
  AlgorithmsByThread(const AlgorithmsByThread&) = delete;
  AlgorithmsByThread& operator=(const AlgorithmsByThread&) = delete;
};

/// The device has GradRecomp's kernels in its scope, which it has not otherwise.
class KernelsOfDevice {
 public:
  /// Those of the CPU, as work of the device's streams.
  KernelsOfDevice();
  explicit KernelsOfDevice(const kernels::Table* table);
  ~KernelsOfDevice();
  KernelsOfDevice(const KernelsOfDevice&) = delete;
  KernelsOfDevice& operator=(const KernelsOfDevice&) = delete;
};

/// In its scope there is no pinned memory to be had.
class NoPinnedMemory {
 public:
  NoPinnedMemory();
  ~NoPinnedMemory();
  NoPinnedMemory(const NoPinnedMemory&) = delete;
  NoPinnedMemory& operator=(const NoPinnedMemory&) = delete;
};

/// In its scope the device's allocation after `count` others finds no memory.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::int64_t count);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  [[nodiscard]] static bool has_failed();
};

/// What an asynchronous device fills the memory with that it allocates, from now on.
void poison_host_device_with(std::uint8_t byte);

}  // namespace gradrecomp::test
