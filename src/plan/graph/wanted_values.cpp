#include "wanted_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradrecomp::plan {

KeptSet only_wanted(const Graph& graph, KeptSet keep) {
  std::vector<std::uint8_t> wanted(keep.size());
  for (std::size_t v = 0; v < keep.size(); ++v) wanted[v] = graph.values[v].saved ? 1 : 0;
  const auto replayed = [&](Index w) {
    const Value& x = graph.values[w];
    const bool held = x.snapshot || x.must_keep || (keep[w] != 0 && x.overwritten_by < 0);
    return wanted[w] != 0 && !held;
  };
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    if (!std::ranges::any_of(graph.ops[i].outputs, replayed)) continue;
    for (const Index u : graph.ops[i].inputs) wanted[u] = 1;
  }
  for (std::size_t v = 0; v < keep.size(); ++v) keep[v] &= wanted[v];
  return keep;
}

}  // namespace gradrecomp::plan
