#include "measure/training_step.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>

#include "bad_input.h"
#include "gradrecomp/plan/signature.h"
#include "progress.h"
#include "workload/device.h"

namespace gradrecomp::program {
namespace {

void check_given_plan(const Region& region, const Workload& workload) {
  const auto& given = region.options().plan;
  if (given == nullptr || given->signature == region.graph().signature) return;
  reject("The signature of --plan", plan::signature_text(given->signature),
         fmt::format("{}, that of {}. Pass a plan made for this model and these options.",
                     plan::signature_text(region.graph().signature), workload.description()));
}

}  // namespace

// A GPU reaches its clock and cuDNN its plans only after some steps.
std::int64_t num_warm_up_steps(c10::Device device) { return device.is_cuda() ? 20 : 1; }

TrainingStep run_training_step(Workload& workload, Region* region) {
  using Clock = std::chrono::steady_clock;
  workload.reset_gradients();
  torch::manual_seed(workload.step_seed());
  finish_work(workload.device());
  TrainingStep step;
  const MemoryMeter meter(workload.device());
  const auto start = Clock::now();
  {
    auto loss = workload.loss(region);
    workload.gradient_scale().backward(loss);
    step.loss = loss.detach();
  }
  finish_work(workload.device());
  step.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  step.start_bytes = meter.start_bytes();
  step.measured_peak_bytes = meter.measured_peak_bytes();
  step.memory = device_memory(workload.device());
  if (region != nullptr && region->last_step().profiled) check_given_plan(*region, workload);
  return step;
}

plan::SavedGraph profile_step(Workload& workload, bool substitutes) {
  show_progress("plain steps to warm up");
  for (std::int64_t i = 0; i < num_warm_up_steps(workload.device()); ++i) {
    run_training_step(workload, nullptr);
  }
  show_progress("profiling a step");
  Region region({.policy = "keep_all", .substitutes = substitutes});
  run_training_step(workload, &region);
  clear_progress();
  const auto& options = workload.options();
  return {region.graph(), {workload.description(), options.dtype, options.device}};
}

}  // namespace gradrecomp::program
