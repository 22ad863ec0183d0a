#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// Whether a plan may keep or drop `v`.
inline bool can_choose(const Value& v) {
  return v.producer >= 0 && v.overwritten_by < 0 && !v.must_keep;
}

/// Whether a plan that rounds values must keep the value at `v`, as a replay from what is rounded
/// may not make it. What a part makes is unpacked from a value that is kept itself.
inline bool must_stay_exact(const Graph& graph, std::size_t v) {
  const Value& value = graph.values[v];
  return value.exact && can_choose(value) && !graph.ops[value.producer].is_part;
}

/// Whether the tape holds `v` under every plan.
inline bool is_source(const Value& v) {
  return v.snapshot || (v.must_keep && v.overwritten_by < 0);
}

/// Whether the tape holds `v` under a plan that keeps it, or not.
inline bool is_held(const Value& v, bool kept) {
  return is_source(v) || (kept && v.overwritten_by < 0);
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

/// The values that are worth a search's moves: which `constraints` leave open, and not tiny.
inline std::vector<Index> open_values(const Graph& graph, std::span<const Constraint> constraints) {
  const std::int64_t least_bytes = tiny_bytes(graph);
  std::vector<Index> open;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& x = graph.values[v];
    if (!can_choose(x) || constraints[v] != Constraint::open || x.bytes < least_bytes) continue;
    open.push_back(static_cast<Index>(v));
  }
  return open;
}

}  // namespace gradrecomp::plan
