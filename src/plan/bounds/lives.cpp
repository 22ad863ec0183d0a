#include "lives.h"

#include <cstddef>

#include "plan/graph/transient_bytes.h"

namespace gradrecomp::plan {
namespace {

/// What replays have left behind goes, though later passes may ask for it once more.
void end_pass(std::vector<Life>& lives, Index event) {
  for (Life& life : lives) {
    if (life.is_demanded()) life.demand_end = std::min(life.demand_end, event);
  }
}

Index release_of_unsaved(const Graph& graph, const std::vector<Index>& readers,
                         const std::vector<Life>& lives) {
  Index release = Life::kNever;
  for (const Index op : readers) {
    for (const Index w : graph.ops[op].outputs) release = std::min(release, lives[w].release);
  }
  return release == Life::kNever ? 0 : release;
}

}  // namespace

std::vector<std::int64_t> bytes_under_every_plan(const Graph& graph) {
  std::vector<std::int64_t> peaks;
  std::vector<std::uint8_t> owned(graph.values.size(), 0);
  std::int64_t live = 0;
  for (const Event& event : graph.events) {
    std::int64_t peak = live;
    if (event.kind == EventKind::run_op) {
      const Op& op = graph.ops[event.id];
      peak = live + forward_transient_bytes(op);
      for (const Index v : op.outputs) {
        const Value& x = graph.values[v];
        if (x.overwrites >= 0) owned[x.overwrites] = 0;
        live += x.overwrites < 0 ? x.bytes : 0;
        owned[v] = 1;
      }
    } else if (event.kind == EventKind::death && owned[event.id] != 0) {
      owned[event.id] = 0;
      live -= graph.values[event.id].bytes;
    } else if (event.kind == EventKind::outside) {
      peak = std::max(peak, live + event.peak_bytes);
      live += event.net_bytes;
    }
    peaks.push_back(std::max(peak, live));
  }
  return peaks;
}

std::vector<std::vector<Index>> find_readers(const Graph& graph) {
  std::vector<std::vector<Index>> readers(graph.values.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const Index u : graph.ops[i].inputs) readers[u].push_back(static_cast<Index>(i));
  }
  return readers;
}

std::vector<Life> find_lives(const Graph& graph, const std::vector<std::vector<Index>>& readers) {
  std::vector<Life> lives(graph.values.size());
  for (std::size_t t = 0; t < graph.events.size(); ++t) {
    const Event& event = graph.events[t];
    const auto now = static_cast<Index>(t);
    if (event.kind == EventKind::pass_end) end_pass(lives, now);
    const bool of_life = event.kind == EventKind::death || event.kind == EventKind::demand ||
                         event.kind == EventKind::release;
    if (!of_life) continue;
    Life& life = lives[event.id];
    if (event.kind == EventKind::death) life = {.death = now};
    if (event.kind == EventKind::release) life.release = now;
    const bool is_first = life.death != Life::kNever && !life.is_demanded();
    if (event.kind == EventKind::demand && is_first) life.demand = now;
  }
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    for (const Index v : graph.ops[i].outputs) {
      if (graph.values[v].saved) continue;
      lives[v].release = release_of_unsaved(graph, readers[v], lives);
    }
  }
  return lives;
}

}  // namespace gradrecomp::plan
