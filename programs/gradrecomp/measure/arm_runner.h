#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gradrecomp/plan/plan.h"
#include "gradrecomp/region.h"
#include "measure/arm.h"
#include "measure/spread.h"
#include "measure/stepper.h"
#include "workload/workload.h"

namespace gradrecomp::program {

/// What one arm did.
struct ArmResult {
  std::string arm;
  plan::Plan plan;  ///< of "plain" only the predicted peaks
  std::int64_t measured_peak_bytes = 0;
  std::int64_t first_step_peak_bytes = 0;  ///< of the step that is profiled; 0 for plain
  double first_step_seconds = 0;           ///< planning included
  std::int64_t total_peak_bytes = 0;       ///< with what was live before the step
  std::int64_t reserved_peak_bytes = 0;    ///< held from the device, whatever tensors ask for
  /// What a step adds to what the process holds of the machine, or its allocator of the device.
  std::optional<std::int64_t> resident_peak_bytes = {};
  std::int64_t num_alloc_retries = 0;  ///< of the allocator, since the program began
  double step_seconds = 0;             ///< plain's median times the median ratio
  Spread time_ratio;                   ///< step / plain step, paired
  Spread plain_ratio;                  ///< plain step / plain step of the same rounds
  bool bitwise_equal = true;           ///< loss, gradients and buffers to plain's, in every step
  /// Of an arm that may round: how far gradients are from plain's, at most, as
  /// TensorSnapshot::relative_error() says. Then bitwise_equal speaks of loss and buffers alone.
  std::optional<double> gradient_error = {};
  bool followed_plan = true;   ///< in every step since its plan stays
  std::int64_t num_steps = 0;  ///< that bitwise_equal speaks of
  StepReport last_step;
  std::string brief_report;
  std::string full_report;
};

/// Runs arms on one model, every step from the same weights, buffers and random state.
///
/// A round is plain, arm, arm, plain; times are compared inside a round only.
class ArmRunner {
 public:
  /// Runs the plain step that all others are compared to, and first compares plain ones.
  ///
  /// On devices other than the CPU, algorithms are deterministic from then on, where there are any.
  ArmRunner(Workload& workload, std::int64_t num_rounds);

  /// Profiles a step under `arm`, then measures it.
  ArmResult run(const Arm& arm);
  /// The plain step, from all rounds so far.
  [[nodiscard]] ArmResult plain() const;

 private:
  void warm_up(Region* region);
  void end_trial(Region& region, ArmResult& result);
  TrainingStep plain_step();
  TrainingStep arm_step(Region& region, ArmResult& result);
  TrainingStep counted_step(Region* region, ArmResult& result);
  void measure_resident(Region* region, ArmResult& result);
  void measure(Region& region, ArmResult& result);

  Workload& workload_;
  Stepper stepper_;
  std::int64_t num_rounds_;
  ArmResult plain_;
  std::vector<double> plain_seconds_;
  std::vector<double> plain_ratios_;
};

}  // namespace gradrecomp::program
