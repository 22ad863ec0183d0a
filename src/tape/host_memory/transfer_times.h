#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

struct TransferTimes {
  double store_seconds = 0;  ///< from the device to the host
  double fetch_seconds = 0;  ///< from the host to the device
};

/// Copies `bytes` there and back as offloaded values are, once to warm up and once timed. Waits for
/// the device.
TransferTimes time_transfers(c10::Device device, std::int64_t bytes);

}  // namespace gradrecomp::tape
