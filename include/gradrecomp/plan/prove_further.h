#pragma once

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// `plan`, which make_plan() made for `graph` and a budget, with more proven of it, and nothing
/// else changed: Plan::proven_peak_bytes where the budget is one of overhead and over two points of
/// the plain peak are open, proven_overhead where it is one of bytes and over two hundredths of the
/// plain step's cost are open.
///
/// Steps need not wait for that, so make_plan() leaves it out. Fixed policies, plans of several
/// devices and plans that offload or round are returned as they are.
/// Guarantees: what is proven is as before or more, and verify() finds it to hold.
/// Complexity: a few seconds, and up to fifteen where most is open; counted in partial plans, so
///             that what is proven does not depend on the machine.
/// Source:     Notes in op_program.cpp and outlook.cpp.
GRADRECOMP_API Plan prove_further(const Graph& graph, Plan plan);

}  // namespace gradrecomp::plan
