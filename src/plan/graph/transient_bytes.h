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

/// Most bytes that the forward pass takes inside `op`, its outputs included; none of its own for a
/// part, whose outputs are among those of its call.
constexpr std::int64_t forward_transient_bytes(const Op& op) {
  return op.is_part ? 0 : op.transient_bytes;
}

}  // namespace gradrecomp::plan
