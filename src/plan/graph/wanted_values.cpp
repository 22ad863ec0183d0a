#include "wanted_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "choosable_values.h"

namespace gradrecomp::plan {

KeptSet only_wanted(const Graph& graph, KeptSet keep) {
  std::vector<std::uint8_t> wanted(keep.size());
  for (std::size_t v = 0; v < keep.size(); ++v) wanted[v] = graph.values[v].saved ? 1 : 0;
  const auto replayed = [&](Index w) {
    return wanted[w] != 0 && !is_held(graph.values[w], keep[w] != 0);
  };
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    if (!std::ranges::any_of(graph.ops[i].outputs, replayed)) continue;
    for (const Index u : graph.ops[i].inputs) wanted[u] = 1;
  }
  for (std::size_t v = 0; v < keep.size(); ++v) keep[v] &= wanted[v];
  return keep;
}

KeptSet constrained(const Graph& graph, std::span<const Constraint> constraints, KeptSet keep) {
  for (std::size_t v = 0; v < keep.size(); ++v) {
    if (constraints[v] != Constraint::open) keep[v] = constraints[v] == Constraint::keep ? 1 : 0;
  }
  return only_wanted(graph, std::move(keep));
}

}  // namespace gradrecomp::plan
