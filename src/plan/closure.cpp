#include "closure.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gradrecomp::plan {

bool Closure::available(Index v, std::span<const std::uint8_t> keep) const {
  const Value& x = graph_.values[v];
  if (x.producer < 0 || x.snapshot) return true;
  return x.overwritten_by < 0 && (x.must_keep || keep[v] != 0);
}

std::span<const Index> Closure::find(Index v, std::span<const std::uint8_t> keep) {
  ops_.clear();
  ++round_;
  return extend(v, keep);
}

std::span<const Index> Closure::extend(Index v, std::span<const std::uint8_t> keep) {
  if (!available(v, keep)) stack_.push_back(v);
  while (!stack_.empty()) {
    const Index op = graph_.values[stack_.back()].producer;
    stack_.pop_back();
    if (stamp_[op] == round_) continue;
    stamp_[op] = round_;
    ops_.push_back(op);
    for (const Index u : graph_.ops[op].inputs) {
      if (!available(u, keep)) stack_.push_back(u);
    }
  }
  return ops_;
}

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
