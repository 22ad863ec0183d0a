#include "relaxation.h"

#include <cstddef>

#include "plan/graph/transient_bytes.h"

// Note [ Lower bounds ]
// ~~~~~~~~~~~~~~~~~~~~~
// Let load(t) be the live bytes of a plan at moment t, cost its overhead, and w(t) weights that sum
// to 1. Then for any price p >= 0
//   peak + p cost >= sum w(t) load(t) + p cost >= value(w, p),
// the least of the middle over a set that contains all plans. So each (w, p) proves a line under
// which no plan lies, and the bound is the highest of the lines found.
//
// The set: an op is replayed (inside) or not. Where the maker of a saved value is not replayed the
// value is kept, and lives from the program's letting go of it to its last release; where it is,
// the value lives at least from its first demand on, and the op costs at least once, however often
// a plan replays it. A replayed op reads values whose makers are replayed too or that are kept; an
// unsaved value that is kept lives at least until the first release of all that its readers can be
// wanted for. What replays make early or hold in passing is left out. The least is a minimum cut.
//
// Weights and prices come from a search in doubles (lower_bound.cpp). What a plan says is proven
// does not rest on it: weights and price are rounded to whole numbers, the cut is solved anew in
// 128 bits (proven_line.cpp), and they are in the plan, so that anyone may do so again
// (verify.cpp).

namespace gradrecomp::plan {
namespace {

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

}  // namespace

Relaxation::Relaxation(const Graph& graph)
    : graph_(&graph),
      base_bytes_(bytes_under_every_plan(graph)),
      readers_(find_readers(graph)),
      lives_(find_lives(graph, readers_)) {}

}  // namespace gradrecomp::plan
