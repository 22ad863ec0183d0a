#pragma once

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"

namespace gradrecomp::plan {

/// `keep` without what neither backward demands nor a replay reads: the tape would hold that for
/// nothing until the region ends.
KeptSet only_wanted(const Graph& graph, KeptSet keep);

}  // namespace gradrecomp::plan
