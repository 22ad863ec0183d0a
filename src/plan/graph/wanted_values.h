#pragma once

#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// Per value, whether a backward pass may ask for it: it has a handle when the forward pass ends,
/// or has been asked for by then. What the program throws away within the region, such as the
/// branch of an accuracy, has none. `graph` needs only events that are valid.
std::vector<bool> saved_values(const Graph& graph);

/// `keep` without what neither backward demands nor a replay reads: the tape would hold that for
/// nothing until the region ends.
KeptSet only_wanted(const Graph& graph, KeptSet keep);

/// `keep` as `constraints` ask, and without what is then not wanted.
KeptSet constrained(const Graph& graph, std::span<const Constraint> constraints, KeptSet keep);

}  // namespace gradrecomp::plan
