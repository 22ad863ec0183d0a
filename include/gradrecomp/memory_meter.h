#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "gradrecomp/export.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// Bytes of one device's tensor allocator.
struct MemoryCounter {
  std::int64_t current_bytes = 0;
  std::int64_t peak_bytes = 0;   ///< highest `current_bytes` since the innermost meter began
  std::int64_t total_bytes = 0;  ///< ever allocated
  bool operator==(const MemoryCounter&) const = default;
};

/// Puts a counting allocator around the CPU tensor allocator; does nothing the second time. Regions
/// call it.
///
/// Counts what is allocated from then on, to the byte and without the allocator's rounding, so
/// call it before the model is built. Later allocators set by the program end the counting.
/// Where the program has set none of its own before, tensors from 64 KiB on then lie in address
/// ranges of GradRecomp's, which keep resident memory close to what is counted.
GRADRECOMP_API void install_cpu_counter();

/// What `device` has now: the bytes that tensors asked for. On the CPU counted here, on others the
/// caching allocator's own statistics, whose rounding device_memory() shows.
/// Throws: c10::NotImplementedError on a device whose allocator keeps no statistics.
GRADRECOMP_API MemoryCounter memory_counter(c10::Device device);

/// What a device's allocator says about itself. On the CPU all bytes are the same.
struct DeviceMemory {
  MemoryCounter requested;             ///< what tensors asked for
  MemoryCounter allocated;             ///< in the allocator's blocks, their rounding included
  MemoryCounter reserved;              ///< held from the device, cached blocks included
  std::int64_t num_alloc_retries = 0;  ///< times the cache was flushed for lack of memory
  std::int64_t num_failures = 0;       ///< allocations that failed even then
};

/// Peaks are since the innermost meter began, or since the last reset of the allocator's own. All
/// zero before the device is first used. Throws: c10::NotImplementedError on a device whose
/// allocator keeps no statistics.
GRADRECOMP_API DeviceMemory device_memory(c10::Device device);

/// Gives host memory that is free, and that the process keeps for later tensors, back to the
/// system. Regions call it when they have planned. Free memory of devices stays with their
/// allocators.
GRADRECOMP_API void release_free_host_memory();

/// Measures the peak of a scope. Meters nest: an outer one sees the peaks of those inside it.
///
/// Threads: counts what every thread allocates; meters of one device must nest, on one thread.
class GRADRECOMP_API MemoryMeter {
 public:
  explicit MemoryMeter(c10::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  [[nodiscard]] std::int64_t start_bytes() const { return start_bytes_; }
  /// Highest live bytes since the meter began, above the bytes live then. Call it only when no
  /// later meter on the device is alive.
  [[nodiscard]] std::int64_t measured_peak_bytes() const;
  /// Live bytes above those live when the meter began; negative if more was freed.
  [[nodiscard]] std::int64_t growth_bytes() const;

 private:
  c10::Device device_;
  std::int64_t start_bytes_;
  std::int64_t outer_peak_bytes_;
};

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
