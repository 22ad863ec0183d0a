#pragma once

#include "measure/tensor_snapshot.h"
#include "measure/training_step.h"

namespace gradrecomp::program {

/// Takes steps of one workload, all from the same weights, buffers and random state.
class Stepper {
 public:
  explicit Stepper(Workload& workload) : workload_(workload), buffers_(workload.buffers()) {}

  /// Takes a plain step, which leaves what step() compares with.
  void take_reference();

  /// Takes a step, inside `region` unless that is null.
  TrainingStep step(Region* region);

  /// Whether the loss, all gradients and all buffers after `step`, the last one, are those after
  /// the reference, bit for bit.
  [[nodiscard]] bool equals_reference(const TrainingStep& step) const;

 private:
  [[nodiscard]] std::vector<torch::Tensor> state_after(const TrainingStep& step) const;

  Workload& workload_;
  TensorSnapshot buffers_;    // before every step
  TensorSnapshot reference_;  // loss, gradients and buffers
};

}  // namespace gradrecomp::program
