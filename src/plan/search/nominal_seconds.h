#pragma once

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// `graph` with the seconds of a machine that does not exist: those of an op follow from its FLOPs
/// and the bytes that it moves.
///
/// What is searched for under CostModel::flops is searched for here. Searches look at seconds where
/// FLOPs do not tell plans apart, and seconds as measured would give the same step another plan in
/// each run.
/// Throws:  std::invalid_argument as validate() does, naming what of `graph` is wrong.
Graph with_nominal_seconds(Graph graph);

}  // namespace gradrecomp::plan
