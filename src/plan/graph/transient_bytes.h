#pragma once

#include <cstddef>
#include <cstdint>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Most bytes that `op` takes of one device.
inline std::int64_t transient_bytes(const Op& op, Index device) {
  if (device == 0) return op.transient_bytes;
  const auto place = static_cast<std::size_t>(device) - 1;
  return place < op.further_transient_bytes.size() ? op.further_transient_bytes[place] : 0;
}

}  // namespace gradrecomp::plan
