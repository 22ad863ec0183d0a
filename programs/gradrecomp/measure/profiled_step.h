#pragma once

#include "gradrecomp/plan/graph_file.h"
#include "progress.h"
#include "workload/gradients.h"
#include "workload/workload.h"

namespace gradrecomp::program {

struct ProfileOptions {
  Gradients gradients = Gradients::preallocated;
  bool substitutes = true;  ///< as in Options of the region
};

/// Takes a step of `workload` in a region that keeps everything, after plain ones to warm up, and
/// returns what was logged.
plan::SavedGraph profile_step(Workload& workload, const ProfileOptions& how, Progress& progress);

}  // namespace gradrecomp::program
