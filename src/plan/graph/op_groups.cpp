#include "op_groups.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace gradrecomp::plan {
namespace {

/// Collects crossings, one entry per value.
class Collector {
 public:
  Collector(const Graph& graph, const OpGroups& groups)
      : graph_(graph), groups_(groups), found_(graph.values.size()) {}

  /// Group `user` reads or saves `v`.
  void use(Index v, Index user) {
    const Index producer = graph_.values[v].producer;
    if (producer < 0 || groups_[producer] >= user) return;
    const Index kept = last_version(graph_, v);
    Crossing& entry = found_[kept];
    const bool is_new = entry.value < 0;
    entry.value = kept;
    entry.made = is_new ? groups_[producer] : std::min(entry.made, groups_[producer]);
    entry.last = std::max(entry.last, user);
  }

  std::vector<Crossing> finish() {
    std::erase_if(found_, [](const Crossing& entry) { return entry.value < 0; });
    return std::move(found_);
  }

 private:
  const Graph& graph_;
  const OpGroups& groups_;
  std::vector<Crossing> found_;
};

}  // namespace

Index last_version(const Graph& graph, Index v) {
  while (graph.values[v].overwritten_by >= 0 && !graph.values[v].snapshot) {
    v = graph.values[v].overwritten_by;
  }
  return v;
}

OpGroups stage_groups(const Graph& graph, Index k) {
  std::vector<Index> rank(graph.stages.size(), -1);
  OpGroups groups;
  Index num_ranked = 0;
  Index highest = 0;
  for (const Op& op : graph.ops) {
    if (rank[op.stage] < 0) rank[op.stage] = num_ranked++;
    highest = std::max(highest, rank[op.stage] / k);
    groups.push_back(highest);
  }
  return groups;
}

std::vector<Index> event_groups(const Graph& graph, const OpGroups& groups) {
  std::vector<Index> found;
  std::vector<std::vector<Index>> saved_in(graph.values.size());
  Index now = 0;
  for (const Event& event : graph.events) {
    if (event.kind == EventKind::run_op) now = groups[event.id];
    if (event.kind == EventKind::pass_end) now = groups.empty() ? 0 : groups.back();
    if (event.kind == EventKind::save) saved_in[event.id].push_back(now);
    if (event.kind == EventKind::demand) {
      const std::vector<Index>& saves = saved_in[event.id];
      const auto above = std::ranges::upper_bound(saves, now);
      if (above != saves.begin()) now = *std::prev(above);
    }
    found.push_back(now);
  }
  return found;
}

std::vector<Crossing> find_crossings(const Graph& graph, const OpGroups& groups) {
  Collector collector(graph, groups);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const Index u : graph.ops[i].inputs) collector.use(u, groups[i]);
  }
  const std::vector<Index> now = event_groups(graph, groups);
  for (std::size_t t = 0; t < now.size(); ++t) {
    const Event& event = graph.events[t];
    if (event.kind == EventKind::save) collector.use(event.id, now[t]);
  }
  return collector.finish();
}

KeptSet keep_crossings(const Graph& graph, const OpGroups& groups) {
  KeptSet keep = drop_all(graph);
  for (const Crossing& crossing : find_crossings(graph, groups)) keep[crossing.value] = 1;
  return keep;
}

}  // namespace gradrecomp::plan
