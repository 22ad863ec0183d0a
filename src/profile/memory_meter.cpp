#include "gradrecomp/profile/memory_meter.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "counting_allocator.h"

namespace gradrecomp::profile {
namespace {

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::CachingDeviceAllocator::DeviceStats device_stats(c10::Device device) {
  return c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
}

std::int64_t exchange_peak(c10::Device device) {
  if (device.is_cpu()) return exchange_cpu_peak();
  const auto peak = device_stats(device).allocated_bytes[kAll].peak;
  c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  return peak;
}

}  // namespace

MemoryCounter memory_counter(c10::Device device) {
  if (device.is_cpu()) return cpu_counter();
  const auto stat = device_stats(device).allocated_bytes[kAll];
  return {stat.current, stat.peak, stat.allocated};
}

MemoryMeter::MemoryMeter(c10::Device device)
    : device_(device),
      start_bytes_(memory_counter(device).current_bytes),
      outer_peak_bytes_(exchange_peak(device)) {}

// A caching allocator's peak cannot be raised again; there an outer meter sees only what came
// after the inner one, or during it if that was higher.
MemoryMeter::~MemoryMeter() {
  if (device_.is_cpu()) raise_cpu_peak(outer_peak_bytes_);
}

std::int64_t MemoryMeter::measured_peak_bytes() const {
  return memory_counter(device_).peak_bytes - start_bytes_;
}

std::int64_t MemoryMeter::growth_bytes() const {
  return memory_counter(device_).current_bytes - start_bytes_;
}

}  // namespace gradrecomp::profile
