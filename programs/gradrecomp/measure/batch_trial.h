#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gradrecomp/plan/batch_plan.h"
#include "gradrecomp/plan/plan.h"
#include "progress.h"
#include "workload/gradients.h"
#include "workload/workload.h"

namespace gradrecomp::program {

/// What all trials of a model share.
struct TrialSetting {
  WorkloadOptions workload;  ///< whose batch is that of the trial
  Gradients gradients = Gradients::preallocated;
  std::int64_t num_steps = 3;  ///< measured
};

/// What real steps at one batch size did.
struct BatchTrial {
  std::int64_t batch = 0;
  plan::Plan plan = {};  ///< made from a step profiled at this batch; none for plain steps
  std::int64_t measured_peak_bytes = 0;  ///< 0: the plan asks for too much, and no step followed it
  double samples_per_second = 0;         ///< measured
  double predicted_samples_per_second = 0;  ///< from the steps at two other batch sizes
  std::string problem = {};  ///< why the model cannot be had at this batch; empty: it can
  std::optional<bool> bitwise_equal = {};  ///< to the plain step; unset: not compared
};

/// Whether the plan and the steps are within `request`.
bool is_within(const BatchTrial& trial, const plan::BatchRequest& request);

/// Takes plain steps at `batch`.
BatchTrial try_plain(const TrialSetting& setting, std::int64_t batch, Progress& progress);

/// A plan to try at one batch size.
struct PlannedStep {
  std::int64_t batch = 0;
  plan::BatchRequest request = {};
  bool compare = false;  ///< every step with a plain one, which has to fit in memory
};

/// Profiles a step, plans it and, if the plan is within the request, measures steps that follow it.
BatchTrial try_planned(const TrialSetting& setting, const PlannedStep& planned, Progress& progress);

}  // namespace gradrecomp::program
