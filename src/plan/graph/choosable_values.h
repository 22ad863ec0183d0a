#pragma once

#include <cstdint>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Whether a plan may keep or drop `v`.
inline bool can_choose(const Value& v) {
  return v.producer >= 0 && v.overwritten_by < 0 && !v.must_keep;
}

/// Bytes of all that autograd saves.
inline std::int64_t saved_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Value& v : graph.values) bytes += v.saved ? v.bytes : 0;
  return bytes;
}

/// Values of fewer bytes are not worth a choice of their own.
inline std::int64_t tiny_bytes(const Graph& graph) { return saved_bytes(graph) / 20000; }

}  // namespace gradrecomp::plan
