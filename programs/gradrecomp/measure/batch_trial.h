#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gradrecomp/plan/batch_plan.h"
#include "gradrecomp/plan/plan.h"
#include "workload/workload_options.h"

namespace gradrecomp::program {

/// What all trials of a model share.
struct TrialSetting {
  WorkloadOptions workload;    ///< whose batch is that of the trial
  std::int64_t num_steps = 3;  ///< measured
};

/// What real steps at one batch size did.
struct BatchTrial {
  std::int64_t batch = 0;
  plan::Plan plan = {};  ///< made from a step profiled at this batch; none for plain steps
  std::int64_t measured_peak_bytes = 0;  ///< 0: the plan asks for too much, and no step followed it
  double samples_per_second = 0;         ///< measured
  double predicted_samples_per_second = 0;  ///< from the steps at two other batch sizes
  std::string problem = {};  ///< why the model cannot be run at this batch; empty: it can
  std::optional<bool> bitwise_equal = {};  ///< to the plain step; unset: not compared
};

/// The higher of its predicted and its measured peak.
std::int64_t peak_bytes(const BatchTrial& trial);

/// Whether the plan and the steps are within `request`.
bool is_within(const BatchTrial& trial, const plan::BatchRequest& request);

/// Takes steps at `batch`, plain ones without a `request`. With one, profiles a step, plans it and,
/// if the plan is within the request, measures steps that follow it.
///
/// `compare` has each of them compared with a plain one, which has to fit in memory.
BatchTrial try_batch(const TrialSetting& setting, std::int64_t batch,
                     const std::optional<plan::BatchRequest>& request, bool compare);

}  // namespace gradrecomp::program
