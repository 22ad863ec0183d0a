#pragma once

#include <algorithm>
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

/// As many values as autograd saves.
inline std::int64_t num_saved(const Graph& graph) {
  return std::ranges::count(graph.values, true, &Value::saved);
}

/// Values of fewer bytes are not worth a choice of their own. Of many values, each may be a small
/// part of the whole, so a value that is not far below their mean is never tiny.
inline std::int64_t tiny_bytes(const Graph& graph) {
  return saved_bytes(graph) / std::max<std::int64_t>(20000, 20 * num_saved(graph));
}

}  // namespace gradrecomp::plan
