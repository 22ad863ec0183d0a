#include "measure/training_step.h"

#include <torch/torch.h>

#include <chrono>

#include "workload/device.h"

namespace gradrecomp::program {

std::vector<torch::Tensor> state_after(const Workload& workload, const torch::Tensor& loss) {
  std::vector<torch::Tensor> tensors{loss};
  for (const auto& parameter : workload.parameters()) tensors.push_back(parameter.grad());
  tensors.insert(tensors.end(), workload.buffers().begin(), workload.buffers().end());
  return tensors;
}

// A GPU reaches its clock and cuDNN its plans only after some steps.
std::int64_t num_warm_up_steps(c10::Device device) { return device.is_cuda() ? 20 : 1; }

TrainingStep run_training_step(Workload& workload, Region* region, std::uint64_t seed) {
  using Clock = std::chrono::steady_clock;
  torch::manual_seed(seed);
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
  return step;
}

}  // namespace gradrecomp::program
