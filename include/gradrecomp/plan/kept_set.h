#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Per value of a graph: 1 keep, 0 drop.
using KeptSet = std::vector<std::uint8_t>;

/// Keeps every value autograd saved: the plain step.
GRADRECOMP_API KeptSet keep_all(const Graph& graph);

/// Keeps only what cannot be replayed. Its peak is often that of the plain step, as the first
/// demand of backward makes the whole network again.
GRADRECOMP_API KeptSet drop_all(const Graph& graph);

}  // namespace gradrecomp::plan
