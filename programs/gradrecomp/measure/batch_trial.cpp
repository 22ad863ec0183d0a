#include "measure/batch_trial.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bad_input.h"
#include "cost_model.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/region.h"
#include "measure/spread.h"
#include "measure/tensor_snapshot.h"
#include "measure/training_step.h"

namespace gradrecomp::program {
namespace {

WorkloadOptions at_batch(WorkloadOptions options, std::int64_t batch) {
  options.batch = batch;
  return options;
}

bool is_too_dear(const plan::Plan& plan, const plan::BatchRequest& request) {
  return request.max_overhead && predicted_overhead(plan, request.cost) > *request.max_overhead;
}

/// Steps of one model at one batch size, all from the same weights, buffers and random state.
class Stepper {
 public:
  Stepper(const TrialSetting& setting, std::int64_t batch, Progress& progress)
      : setting_(setting),
        progress_(progress),
        workload_(at_batch(setting.workload, batch)),
        buffers_(workload_.buffers()) {
    trial_.batch = batch;
  }

  /// Has later steps compared with a plain one.
  void compare() {
    show("plain step to compare with");
    reference_ = TensorSnapshot(state_after(workload_, step(nullptr).loss));
    trial_.bitwise_equal = true;
  }

  /// A region whose first step has made the plan that meets the request best.
  Region plan(const plan::BatchRequest& request) {
    show("profiling");
    Region region({.max_peak_bytes = request.max_peak_bytes, .cost = request.cost});
    step(&region);
    if (is_too_dear(region.plan(), request)) {
      auto cheaper = plan::make_plan(region.graph(),
                                     {.max_overhead = request.max_overhead, .cost = request.cost});
      region = Region({.plan = std::make_shared<const plan::Plan>(std::move(cheaper))});
      step(&region);
    }
    trial_.plan = region.plan();
    return region;
  }

  void measure(Region* region) {
    show("warming up");
    for (std::int64_t i = 0; i < num_warm_up_steps(workload_.device()); ++i) step(region);
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < setting_.num_steps; ++i) {
      show(fmt::format("step {} of {}", i + 1, setting_.num_steps));
      const auto done = step(region);
      seconds.push_back(done.seconds);
      trial_.measured_peak_bytes = std::max(trial_.measured_peak_bytes, done.measured_peak_bytes);
    }
    const double median = spread_of(std::move(seconds)).median;
    trial_.samples_per_second = median > 0 ? static_cast<double>(trial_.batch) / median : 0;
  }

  [[nodiscard]] const BatchTrial& trial() const { return trial_; }

 private:
  TrainingStep step(Region* region) {
    buffers_.restore(workload_.buffers());
    reset_gradients(workload_.parameters(), setting_.gradients);
    auto done = run_training_step(workload_, region, setting_.workload.seed);
    if (trial_.bitwise_equal) {
      *trial_.bitwise_equal &= reference_.equals(state_after(workload_, done.loss));
    }
    return done;
  }

  void show(std::string_view what) {
    progress_.show(fmt::format("batch {}: {}", trial_.batch, what));
  }

  const TrialSetting& setting_;
  Progress& progress_;
  Workload workload_;
  TensorSnapshot buffers_;    // before every step
  TensorSnapshot reference_;  // what a plain step leaves
  BatchTrial trial_;
};

/// What a trial comes to when memory ends in it.
BatchTrial out_of_memory(std::int64_t batch) {
  return {.batch = batch,
          .problem = fmt::format("batch {} needs more memory than the device has free", batch)};
}

}  // namespace

bool is_within(const BatchTrial& trial, const plan::BatchRequest& request) {
  const auto peak_bytes = std::max(trial.plan.predicted_peak_bytes, trial.measured_peak_bytes);
  return trial.problem.empty() && peak_bytes <= request.max_peak_bytes &&
         !is_too_dear(trial.plan, request);
}

BatchTrial try_plain(const TrialSetting& setting, std::int64_t batch, Progress& progress) try {
  Stepper stepper(setting, batch, progress);
  stepper.measure(nullptr);
  return stepper.trial();
} catch (const BadInput& error) {
  return {.batch = batch, .problem = error.what()};
} catch (const c10::OutOfMemoryError&) {
  return out_of_memory(batch);
}

BatchTrial try_planned(const TrialSetting& setting, const PlannedStep& planned,
                       Progress& progress) try {
  Stepper stepper(setting, planned.batch, progress);
  if (planned.compare) stepper.compare();
  auto region = stepper.plan(planned.request);
  if (is_within(stepper.trial(), planned.request)) stepper.measure(&region);
  return stepper.trial();
} catch (const BadInput& error) {
  return {.batch = planned.batch, .problem = error.what()};
} catch (const c10::OutOfMemoryError&) {
  return out_of_memory(planned.batch);
}

}  // namespace gradrecomp::program
