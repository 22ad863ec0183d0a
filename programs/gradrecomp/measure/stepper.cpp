#include "measure/stepper.h"

namespace gradrecomp::program {

void Stepper::take_reference() { reference_ = TensorSnapshot(state_after(step(nullptr))); }

TrainingStep Stepper::step(Region* region) {
  buffers_.restore(workload_.buffers());
  return run_training_step(workload_, region);
}

bool Stepper::equals_reference(const TrainingStep& step) const {
  return reference_.equals(state_after(step));
}

std::vector<torch::Tensor> Stepper::state_after(const TrainingStep& step) const {
  std::vector<torch::Tensor> tensors{step.loss};
  for (const auto& parameter : workload_.parameters()) tensors.push_back(parameter.grad());
  tensors.insert(tensors.end(), workload_.buffers().begin(), workload_.buffers().end());
  return tensors;
}

}  // namespace gradrecomp::program
