#include "gradrecomp/rounding_speed.h"

#include <cstdint>

#include "profile/per_device.h"
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
  static profile::PerDevice<double> speeds;
  return speeds.of(device, measure);
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
