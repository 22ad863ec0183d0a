#include "gradrecomp/rounding_speed.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "tape/away/rounded_copy.h"
#include "tape/away/rounding_time.h"
#include "tape/own_work.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {
namespace {

constexpr std::int64_t kNumBytes = std::int64_t{8} << 20;

double measure(c10::Device device) {
  const tape::OwnWork own_work;
  return static_cast<double>(kNumBytes) / tape::time_rounding(device, kNumBytes);
}

}  // namespace

std::optional<double> measured_rounding_speed(c10::Device device) {
  if (!tape::can_round_on(device.type())) return std::nullopt;
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, double> speeds;
  const std::lock_guard lock(mutex);
  const auto key = std::pair(device.type(), device.index());
  const auto known = speeds.find(key);
  return known != speeds.end() ? known->second : speeds.emplace(key, measure(device)).first->second;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
