#pragma once

#include "gradrecomp/region.h"
#include "workload/workload.h"

namespace gradrecomp::program {

/// Checks that the step just profiled in `region` is the one that its given plan, if any, is for.
/// Throws:  BadInput naming both op sequences otherwise; the region itself would only warn.
void check_given_plan(const Region& region, const Workload& workload);

}  // namespace gradrecomp::program
