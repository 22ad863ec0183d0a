#include "measure/batch_trial.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bad_input.h"
#include "format.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/region.h"
#include "measure/spread.h"
#include "measure/stepper.h"
#include "progress.h"

namespace gradrecomp::program {
namespace {

WorkloadOptions at_batch(WorkloadOptions options, std::int64_t batch) {
  options.batch = batch;
  return options;
}

bool is_too_dear(const plan::Plan& plan, const plan::BatchRequest& request) {
  return request.max_overhead && plan.predicted_overhead(request.cost) > *request.max_overhead;
}

/// A model at one batch size, and what became of its steps.
class TrialRun {
 public:
  TrialRun(const TrialSetting& setting, std::int64_t batch)
      : num_steps_(setting.num_steps),
        workload_(at_batch(setting.workload, batch)),
        stepper_(workload_),
        trial_{.batch = batch} {}

  /// Has later steps compared with a plain one.
  void compare() {
    show("plain step to compare with");
    stepper_.take_reference();
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
    for (std::int64_t i = 0; i < num_steps_; ++i) {
      show(fmt::format("step {} of {}", i + 1, num_steps_));
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
    auto done = stepper_.step(region);
    if (trial_.bitwise_equal) *trial_.bitwise_equal &= stepper_.equals_reference(done);
    return done;
  }

  void show(std::string_view what) const {
    show_progress(fmt::format("batch {}: {}", trial_.batch, what));
  }

  std::int64_t num_steps_;
  Workload workload_;
  Stepper stepper_;
  BatchTrial trial_;
};

}  // namespace

std::int64_t peak_bytes(const BatchTrial& trial) {
  return std::max(trial.plan.predicted_peak_bytes, trial.measured_peak_bytes);
}

bool is_within(const BatchTrial& trial, const plan::BatchRequest& request) {
  return trial.problem.empty() && peak_bytes(trial) <= request.max_peak_bytes &&
         !is_too_dear(trial.plan, request);
}

BatchTrial try_batch(const TrialSetting& setting, std::int64_t batch,
                     const std::optional<plan::BatchRequest>& request, bool compare) try {
  TrialRun run(setting, batch);
  if (compare) run.compare();
  if (!request) {
    run.measure(nullptr);
  } else if (auto region = run.plan(*request); is_within(run.trial(), *request)) {
    run.measure(&region);
  }
  return run.trial();
} catch (const BadInput& error) {
  return {.batch = batch, .problem = error.what()};
} catch (const c10::OutOfMemoryError&) {
  return {.batch = batch,
          .problem = fmt::format("batch {} needs more memory than the device has free", batch)};
}

}  // namespace gradrecomp::program
