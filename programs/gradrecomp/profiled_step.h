#pragma once

#include "gradients.h"
#include "gradrecomp/plan/graph_file.h"
#include "progress.h"
#include "workload.h"

namespace gradrecomp::program {

/// Takes a step of `workload` in a region that keeps everything, after plain ones to warm up, and
/// returns what was logged.
plan::SavedGraph profile_step(Workload& workload, Gradients gradients, Progress& progress);

}  // namespace gradrecomp::program
