#include "measure/arm_runner.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "measure/resident_memory.h"
#include "progress.h"
#include "workload/device.h"

namespace gradrecomp::program {
namespace {

void count_memory(const TrainingStep& step, ArmResult& result) {
  const auto raise = [](std::int64_t& peak, std::int64_t bytes) { peak = std::max(peak, bytes); };
  raise(result.measured_peak_bytes, step.measured_peak_bytes);
  raise(result.total_peak_bytes, step.start_bytes + step.measured_peak_bytes);
  raise(result.reserved_peak_bytes, step.memory.reserved.peak_bytes);
  result.num_alloc_retries = step.memory.num_alloc_retries;
}

}  // namespace

ArmRunner::ArmRunner(Workload& workload, std::int64_t num_rounds)
    : workload_(workload), stepper_(workload), num_rounds_(num_rounds) {
  plain_.arm = "plain";
  show_progress("arm plain: first step");
  if (workload_.device().is_cpu()) {
    stepper_.take_reference();
  } else {
    run_deterministically([this] { stepper_.take_reference(); });
  }
  show_progress("arm plain: against itself");
  plain_step();
  warm_up(nullptr);
  measure_resident(nullptr, plain_);
  plain_seconds_.clear();
}

/// After a first step; without comparisons, which take longer than the step of a large model on a
/// GPU.
void ArmRunner::warm_up(Region* region) {
  for (std::int64_t i = 1; i < num_warm_up_steps(workload_.device()); ++i) stepper_.step(region);
}

/// Until its plan stays, or does not come to that. The step that decides may have followed another.
void ArmRunner::end_trial(Region& region, ArmResult& result) {
  constexpr int kMostSteps = 20;
  show_progress(fmt::format("arm {}: timing its plan", result.arm));
  for (int i = 0; i < kMostSteps && region.last_step().on_trial; ++i) {
    counted_step(&region, result);
  }
}

TrainingStep ArmRunner::counted_step(Region* region, ArmResult& result) {
  auto step = stepper_.step(region);
  if (result.gradient_error) {
    result.bitwise_equal &= stepper_.equals_reference_but_gradients(step);
    result.gradient_error = std::max(*result.gradient_error, stepper_.gradient_error());
  } else {
    result.bitwise_equal &= stepper_.equals_reference(step);
  }
  ++result.num_steps;
  return step;
}

TrainingStep ArmRunner::plain_step() {
  auto step = counted_step(nullptr, plain_);
  count_memory(step, plain_);
  plain_seconds_.push_back(step.seconds);
  return step;
}

TrainingStep ArmRunner::arm_step(Region& region, ArmResult& result) {
  auto step = counted_step(&region, result);
  result.last_step = region.last_step();
  if (result.last_step.profiled || result.last_step.on_trial) return step;
  result.followed_plan &= result.last_step.followed_plan;
  count_memory(step, result);
  return step;
}

ArmResult ArmRunner::run(const Arm& arm) {
  ArmResult result;
  result.arm = arm.name;
  if (arm.options.forms != Forms::exact) result.gradient_error = 0;
  Region region(arm.options);
  show_progress(fmt::format("arm {}: profiling", arm.name));
  const TrainingStep first = arm_step(region, result);
  result.first_step_peak_bytes = first.measured_peak_bytes;
  result.first_step_seconds = first.seconds;
  arm_step(region, result);
  warm_up(&region);
  end_trial(region, result);
  measure(region, result);
  measure_resident(&region, result);  // last, as the first step under a plan lies as it comes
  result.plan = region.plan();
  result.brief_report = region.brief_report();
  result.full_report = region.full_report();
  plain_.plan.predicted_peak_bytes = result.plan.predicted_plain_peak_bytes;
  plain_.plan.predicted_plain_peak_bytes = result.plan.predicted_plain_peak_bytes;
  plain_.last_step.num_ops = result.last_step.num_ops;
  clear_progress();
  return result;
}

// A step of its own: it meets no free memory, and page faults or new segments cost it time.
void ArmRunner::measure_resident(Region* region, ArmResult& result) {
  const auto device = workload_.device();
  if (device.is_cpu()) {
    const ResidentMeter meter;
    counted_step(region, result);
    result.resident_peak_bytes = meter.peak_bytes();
    return;
  }
  c10::getDeviceAllocator(device.type())->emptyCache();
  const auto before = device_memory(device).reserved.current_bytes;
  result.resident_peak_bytes = counted_step(region, result).memory.reserved.peak_bytes - before;
  counted_step(nullptr, plain_);  // takes the memory again that plain steps need
}

void ArmRunner::measure(Region& region, ArmResult& result) {
  std::vector<double> ratios;
  std::vector<double> plain_ratios;
  for (std::int64_t i = 0; i < num_rounds_; ++i) {
    show_progress(fmt::format("arm {}: round {} of {}", result.arm, i + 1, num_rounds_));
    const double plain_before = plain_step().seconds;
    const double first = arm_step(region, result).seconds;
    const double second = arm_step(region, result).seconds;
    const double plain_after = plain_step().seconds;
    ratios.push_back((first + second) / (plain_before + plain_after));
    plain_ratios.push_back(plain_after / plain_before);
  }
  plain_ratios_.insert(plain_ratios_.end(), plain_ratios.begin(), plain_ratios.end());
  result.time_ratio = spread_of(std::move(ratios));
  result.plain_ratio = spread_of(std::move(plain_ratios));
}

ArmResult ArmRunner::plain() const {
  ArmResult result = plain_;
  result.step_seconds = spread_of(plain_seconds_).median;
  result.plain_ratio = spread_of(plain_ratios_);
  result.time_ratio = {1, 1, 1};
  return result;
}

}  // namespace gradrecomp::program
