#include "measure/arm_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "measure/given_plan.h"
#include "workload/determinism.h"

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

ArmRunner::ArmRunner(Workload& workload, const ArmRunnerOptions& options, Progress& progress)
    : workload_(workload), options_(options), progress_(progress), buffers_(workload.buffers()) {
  plain_.arm = "plain";
  take_reference();
  progress_.show("arm plain: against itself");
  for (std::int64_t i = 0; i < num_warm_ups(); ++i) plain_step();
  plain_seconds_.clear();
}

void ArmRunner::take_reference() {
  progress_.show("arm plain: first step");
  const auto first_step = [this] {
    bool equal = false;
    reference_ = TensorSnapshot(state_after(workload_, step(nullptr, equal).loss));
  };
  if (workload_.device().is_cpu()) return first_step();
  run_deterministically(first_step);
}

std::int64_t ArmRunner::num_warm_ups() const { return num_warm_up_steps(workload_.device()); }

TrainingStep ArmRunner::step(Region* region, bool& equal) {
  buffers_.restore(workload_.buffers());
  reset_gradients(workload_.parameters(), options_.gradients);
  auto step = run_training_step(workload_, region, options_.seed);
  equal = reference_.equals(state_after(workload_, step.loss));
  return step;
}

TrainingStep ArmRunner::plain_step() {
  bool equal = false;
  auto result = step(nullptr, equal);
  plain_.bitwise_equal &= equal;
  ++plain_.num_steps;
  count_memory(result, plain_);
  plain_seconds_.push_back(result.seconds);
  return result;
}

TrainingStep ArmRunner::arm_step(Region& region, ArmResult& result) {
  bool equal = false;
  auto done = step(&region, equal);
  result.bitwise_equal &= equal;
  ++result.num_steps;
  result.last_step = region.last_step();
  if (result.last_step.profiled) return done;
  result.followed_plan &= result.last_step.followed_plan;
  count_memory(done, result);
  return done;
}

ArmResult ArmRunner::run(const Arm& arm) {
  ArmResult result;
  result.arm = arm.name;
  Region region(arm.options);
  progress_.show(fmt::format("arm {}: profiling", arm.name));
  arm_step(region, result);
  check_given_plan(region, workload_);
  for (std::int64_t i = 0; i < num_warm_ups(); ++i) arm_step(region, result);
  measure(region, result);
  result.plan = region.plan();
  result.brief_report = region.brief_report();
  result.full_report = region.full_report();
  plain_.plan.predicted_peak_bytes = result.plan.predicted_plain_peak_bytes;
  plain_.plan.predicted_plain_peak_bytes = result.plan.predicted_plain_peak_bytes;
  plain_.last_step.num_ops = result.last_step.num_ops;
  progress_.clear();
  return result;
}

ArmRunner::Round ArmRunner::round(Region& region, ArmResult& result) {
  const double plain_before = plain_step().seconds;
  const double first = arm_step(region, result).seconds;
  const double second = arm_step(region, result).seconds;
  const double plain_after = plain_step().seconds;
  return {(first + second) / (plain_before + plain_after), plain_after / plain_before};
}

void ArmRunner::measure(Region& region, ArmResult& result) {
  std::vector<double> ratios;
  std::vector<double> plain_ratios;
  for (std::int64_t i = 0; i < options_.num_rounds; ++i) {
    progress_.show(fmt::format("arm {}: round {} of {}", result.arm, i + 1, options_.num_rounds));
    const auto [ratio, plain_ratio] = round(region, result);
    ratios.push_back(ratio);
    plain_ratios.push_back(plain_ratio);
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
