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
  /// The same of the loss and the buffers alone.
  [[nodiscard]] bool equals_reference_but_gradients(const TrainingStep& step) const;
  /// How far the gradients are from those after the reference, as TensorSnapshot says.
  [[nodiscard]] double gradient_error() const;

 private:
  [[nodiscard]] std::vector<torch::Tensor> outcome_of(const TrainingStep& step) const;
  [[nodiscard]] std::vector<torch::Tensor> gradients() const;

  Workload& workload_;
  TensorSnapshot buffers_;            // before every step
  TensorSnapshot reference_outcome_;  // loss and buffers
  TensorSnapshot reference_gradients_;
};

}  // namespace gradrecomp::program
