#include "gradrecomp/host_link.h"

#include <cstdint>

#include "profile/per_device.h"
#include "tape/host_memory/transfer_times.h"
#include "tape/own_work.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constexpr std::int64_t kNumBytes = std::int64_t{32} << 20;

plan::HostLink measure(c10::Device device) {
  const tape::OwnWork own_work;
  const auto times = tape::time_transfers(device, kNumBytes);
  return {.store_bytes_per_second = static_cast<double>(kNumBytes) / times.store_seconds,
          .fetch_bytes_per_second = static_cast<double>(kNumBytes) / times.fetch_seconds,
          .overlaps = !device.is_cpu()};
}

}  // namespace

plan::HostLink measured_host_link(c10::Device device) {
  static profile::PerDevice<plan::HostLink> links;
  return links.of(device, measure);
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
