#include "relaxation.h"

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

Relaxation::Relaxation(const Graph& graph)
    : graph_(&graph),
      base_bytes_(bytes_under_every_plan(graph)),
      readers_(find_readers(graph)),
      lives_(find_lives(graph, readers_)) {}

}  // namespace gradrecomp::plan
