#pragma once

#include <cstddef>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Per value, the first event in which backward demands it; `none` where it never does.
inline std::vector<Index> first_demands(const Graph& graph, Index none) {
  std::vector<Index> first(graph.values.size(), none);
  for (std::size_t t = graph.events.size(); t-- > 0;) {
    const Event& event = graph.events[t];
    if (event.kind == EventKind::demand) first[event.id] = static_cast<Index>(t);
  }
  return first;
}

/// Per value, whether a backward pass may ask for it: it has a handle when the forward pass ends,
/// or has been asked for by then. What the program throws away within the region, such as the
/// branch of an accuracy, has none. `graph` needs only events that are valid.
inline std::vector<bool> saved_values(const Graph& graph) {
  std::vector<Index> num_handles(graph.values.size(), 0);
  std::vector<bool> saved(graph.values.size(), false);
  for (const Event& event : graph.events) {
    if (event.kind == EventKind::seal) break;
    if (event.kind == EventKind::save) ++num_handles[event.id];
    if (event.kind == EventKind::release) --num_handles[event.id];
    if (event.kind == EventKind::demand) saved[event.id] = true;
  }
  for (std::size_t v = 0; v < saved.size(); ++v) saved[v] = saved[v] || num_handles[v] > 0;
  return saved;
}

}  // namespace gradrecomp::plan
