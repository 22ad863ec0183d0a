#pragma once

#include <CLI/CLI.hpp>

#include "gradrecomp/region/region.h"
#include "workload.h"

namespace gradrecomp::program {

/// Adds --plan, which reads a plan file at once.
void add_plan_argument(CLI::App& command, Options& options);

/// Checks that the step just profiled in `region` is the one that its given plan, if any, is for.
/// Throws:  BadInput naming both op sequences otherwise; the region itself would only warn.
void check_given_plan(const Region& region, const Workload& workload);

}  // namespace gradrecomp::program
