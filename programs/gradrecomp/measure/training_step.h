#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "gradrecomp/memory_meter.h"
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

/// What a plan must not change: the loss of a step just taken, all gradients and all buffers.
std::vector<torch::Tensor> state_after(const Workload& workload, const torch::Tensor& loss);

/// Plain steps to take before any is measured.
std::int64_t num_warm_up_steps(c10::Device device);

/// Runs one step from random state `seed`, inside `region` unless that is null.
///
/// Memory:  gradients must be as they shall be found; nothing is allocated around the step.
TrainingStep run_training_step(Workload& workload, Region* region, std::uint64_t seed);

}  // namespace gradrecomp::program
