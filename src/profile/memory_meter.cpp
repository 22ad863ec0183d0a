#include "gradrecomp/memory_meter.h"

#include <c10/core/CachingDeviceAllocator.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "arena/host_arena.h"
#include "profile/counting_allocator.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

// A caching allocator can set its peak to the current bytes, but not back to a higher one. So what
// a meter must give back to the meter around it is remembered here.
class RaisedPeaks {
 public:
  void set(c10::Device device, std::int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_[key(device)] = bytes;
  }
  std::int64_t of(c10::Device device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_[key(device)];
  }

 private:
  using Key = std::pair<c10::DeviceType, c10::DeviceIndex>;
  static Key key(c10::Device device) { return {device.type(), device.index()}; }

  std::mutex mutex_;
  std::map<Key, std::int64_t> bytes_;
};

RaisedPeaks& raised_peaks() {
  static auto* peaks = new RaisedPeaks;  // for meters in programs that end
  return *peaks;
}

bool in_use(c10::Device device) { return c10::getDeviceAllocator(device.type())->initialized(); }

DeviceStats device_stats(c10::Device device) {
  return c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
}

MemoryCounter counter_of(const c10::CachingAllocator::StatArray& stats) {
  const auto& all = stats[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  return {all.current, all.peak, all.allocated};
}

MemoryCounter requested_of(const DeviceStats& stats, c10::Device device) {
  auto counter = counter_of(stats.requested_bytes);
  counter.peak_bytes = std::max(counter.peak_bytes, raised_peaks().of(device));
  return counter;
}

std::int64_t exchange_peak(c10::Device device) {
  if (device.is_cpu()) return profile::exchange_cpu_peak();
  const auto peak = memory_counter(device).peak_bytes;
  if (in_use(device)) c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  raised_peaks().set(device, 0);
  return peak;
}

}  // namespace

MemoryCounter memory_counter(c10::Device device) {
  if (device.is_cpu()) return profile::cpu_counter();
  if (!in_use(device)) return {};
  return requested_of(device_stats(device), device);
}

DeviceMemory device_memory(c10::Device device) {
  if (device.is_cpu())
    return {profile::cpu_counter(), profile::cpu_counter(), profile::cpu_counter()};
  if (!in_use(device)) return {};
  const auto stats = device_stats(device);
  return {requested_of(stats, device), counter_of(stats.allocated_bytes),
          counter_of(stats.reserved_bytes), stats.num_alloc_retries, stats.num_ooms};
}

void release_free_host_memory() {
  if (profile::uses_host_arena()) arena::HostArena::of_process().give_back_free();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

MemoryMeter::MemoryMeter(c10::Device device)
    : device_(device),
      start_bytes_(memory_counter(device).current_bytes),
      outer_peak_bytes_(exchange_peak(device)) {}

MemoryMeter::~MemoryMeter() {
  if (device_.is_cpu()) {
    profile::raise_cpu_peak(outer_peak_bytes_);
  } else {
    raised_peaks().set(device_, std::max(outer_peak_bytes_, raised_peaks().of(device_)));
  }
}

std::int64_t MemoryMeter::measured_peak_bytes() const {
  return memory_counter(device_).peak_bytes - start_bytes_;
}

std::int64_t MemoryMeter::growth_bytes() const {
  return memory_counter(device_).current_bytes - start_bytes_;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
