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

}  // namespace gradrecomp::plan
