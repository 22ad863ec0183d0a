#pragma once

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// The link that moves activations between a device and host memory.
struct HostLink {
  double store_bytes_per_second = 0;  ///< from the device to the host; 0: there is no link
  double fetch_bytes_per_second = 0;  ///< from the host to the device
  bool overlaps = false;              ///< transfers run beside the device's own work
  bool operator==(const HostLink&) const = default;
};

}  // namespace gradrecomp::plan
