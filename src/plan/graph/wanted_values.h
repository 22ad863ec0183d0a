#pragma once

#include <span>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// `keep` without what neither backward demands nor a replay reads: the tape would hold that for
/// nothing until the region ends.
KeptSet only_wanted(const Graph& graph, KeptSet keep);

/// `keep` as `constraints` ask, and without what is then not wanted.
KeptSet constrained(const Graph& graph, std::span<const Constraint> constraints, KeptSet keep);

}  // namespace gradrecomp::plan
