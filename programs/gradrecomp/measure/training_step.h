#pragma once

#include <torch/types.h>

#include <cstdint>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/region.h"
#include "workload/workload.h"

namespace gradrecomp::program {

/// Forward and backward once, measured.
struct TrainingStep {
  torch::Tensor loss;
  double seconds = 0;
  std::int64_t start_bytes = 0;          ///< live just before forward
  std::int64_t measured_peak_bytes = 0;  ///< activation peak
  DeviceMemory memory;                   ///< when it has ended, with peaks within it
};

/// Plain steps to take before any is measured.
std::int64_t num_warm_up_steps(c10::Device device);

/// Runs one step of the loaded batch, inside `region` unless that is null, from the gradients and
/// random state that the workload says.
///
/// Memory:  nothing else is allocated around the step.
/// Throws:  BadInput if `region` was given a plan, and the step just profiled has another op
///          sequence; the region itself would only warn.
TrainingStep run_training_step(Workload& workload, Region* region);

/// Takes a step in a region that keeps everything, after plain ones to warm up, and returns what
/// was logged. `substitutes` is the region's option.
plan::SavedGraph profile_step(Workload& workload, bool substitutes = true);

}  // namespace gradrecomp::program
