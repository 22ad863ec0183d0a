#include "measure/stepper.h"

namespace gradrecomp::program {

void Stepper::take_reference() {
  const TrainingStep reference = step(nullptr);
  reference_outcome_ = TensorSnapshot(outcome_of(reference));
  reference_gradients_ = TensorSnapshot(gradients());
}

TrainingStep Stepper::step(Region* region) {
  buffers_.restore(workload_.buffers());
  return run_training_step(workload_, region);
}

bool Stepper::equals_reference(const TrainingStep& step) const {
  return equals_reference_but_gradients(step) && reference_gradients_.equals(gradients());
}

bool Stepper::equals_reference_but_gradients(const TrainingStep& step) const {
  return reference_outcome_.equals(outcome_of(step));
}

double Stepper::gradient_error() const { return reference_gradients_.relative_error(gradients()); }

std::vector<torch::Tensor> Stepper::outcome_of(const TrainingStep& step) const {
  std::vector<torch::Tensor> tensors{step.loss};
  tensors.insert(tensors.end(), workload_.buffers().begin(), workload_.buffers().end());
  return tensors;
}

std::vector<torch::Tensor> Stepper::gradients() const {
  std::vector<torch::Tensor> tensors;
  for (const auto& parameter : workload_.parameters()) tensors.push_back(parameter.grad());
  return tensors;
}

}  // namespace gradrecomp::program
