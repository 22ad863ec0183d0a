#include "offloaded_graph.h"

#include <algorithm>
#include <map>

#include "plan/graph/demands.h"

namespace gradrecomp::plan {

OffloadedGraph::OffloadedGraph(const Graph& graph)
    : graph_(graph),
      run_event_(graph.ops.size(), -1),
      leave_event_(graph.ops.size(), -1),
      death_event_(graph.values.size(), -1),
      demand_event_(first_demands(graph, -1)),
      release_event_(graph.values.size(), -1) {
  std::vector<Index> num_handles(graph.values.size(), 0);
  for (std::size_t t = 0; t < graph.events.size(); ++t) {
    const Event& event = graph.events[t];
    const auto now = static_cast<Index>(t);
    if (event.kind == EventKind::run_op) run_event_[event.id] = now;
    if (event.kind == EventKind::death) death_event_[event.id] = now;
    if (event.kind == EventKind::save) ++num_handles[event.id];
    if (event.kind == EventKind::release) {
      release_event_[event.id] = now;
      --num_handles[event.id];
    }
  }
  const auto never = static_cast<Index>(graph.events.size());
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (num_handles[v] > 0) release_event_[v] = never;
  }
  find_leave_events();
}

// As an Execution has it: before the next call, or the end of forward.
void OffloadedGraph::find_leave_events() {
  auto next = static_cast<Index>(graph_.events.size());
  for (Index t = next - 1; t >= 0; --t) {
    const Event& event = graph_.events[t];
    if (event.kind == EventKind::seal) next = t;
    if (event.kind != EventKind::run_op) continue;
    leave_event_[event.id] = next;
    if (!graph_.ops[event.id].is_part) next = t;
  }
}

Index OffloadedGraph::fresh_version(Index v) const {
  while (graph_.values[v].overwrites >= 0) v = graph_.values[v].overwrites;
  return v;
}

bool OffloadedGraph::can_leave(std::size_t v) const {
  const Value& value = graph_.values[v];
  if (value.overwritten_by >= 0 || value.producer < 0 || death_event_[v] < 0) return false;
  for (auto u = static_cast<Index>(v); u >= 0; u = graph_.values[u].overwrites) {
    const Value& version = graph_.values[u];
    if (version.producer < 0 || version.must_keep || version.snapshot) return false;
  }
  return true;
}

/// The event before which a value starts on its way back.
Index OffloadedGraph::start_of(const Offload& offload, Index need) const {
  const Index start = offload.returns_at >= 0 ? demand_event_[offload.returns_at] : need;
  return start >= 0 ? std::min(start, need) : need;
}

/// The event after which nothing uses `v` any more: its own last release, or of values that
/// autograd did not save, those of what is made from it.
Index OffloadedGraph::last_use(Index v) const {
  if (release_event_[v] >= 0) return release_event_[v];
  Index last = -1;
  for (const Op& op : graph_.ops) {
    if (std::ranges::find(op.inputs, v) == op.inputs.end()) continue;
    for (const Index made : op.outputs) last = std::max(last, release_event_[made]);
  }
  return last;
}

Graph OffloadedGraph::graph_without(std::span<const Offload> offloads,
                                    std::span<const Need> needs) const {
  std::map<Index, Index> need_of;
  for (const Need& need : needs) need_of[need.value] = need.event;
  Graph graph = graph_;
  // Bytes that come (or go, below 0) after each event; position 0 is before all.
  std::vector<std::int64_t> change(graph_.events.size() + 2, 0);
  for (const Offload& offload : offloads) {
    const Index v = offload.value;
    const std::int64_t bytes = graph_.values[v].bytes;
    for (Index u = v; u >= 0; u = graph_.values[u].overwrites) graph.values[u].bytes = 0;
    const Index need = need_of.at(v);
    const Index start = start_of(offload, need);
    const Index gone = std::max(leave_event_[offload.leaves_after] - 1, death_event_[v]);
    change[run_event_[graph_.values[fresh_version(v)].producer] + 1] += bytes;
    if (gone >= start) {  // it is there all the time
      change[std::max({last_use(v), gone, need}) + 1] -= bytes;
      continue;
    }
    change[gone + 1] -= bytes;
    change[start] += bytes;
    change[std::max(last_use(v), need) + 1] -= bytes;
  }
  graph.events.clear();
  const auto add = [&](std::int64_t bytes) {
    if (bytes != 0) {
      graph.events.push_back({EventKind::outside, -1, bytes, std::max<std::int64_t>(bytes, 0)});
    }
  };
  add(change.front());
  for (std::size_t t = 0; t < graph_.events.size(); ++t) {
    graph.events.push_back(graph_.events[t]);
    add(change[t + 1]);
  }
  return graph;
}

}  // namespace gradrecomp::plan
