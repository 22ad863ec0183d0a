#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gradrecomp/region.h"
#include "workload/batches.h"
#include "workload/gradient_scale.h"
#include "workload/model_catalog.h"
#include "workload/workload_options.h"

namespace gradrecomp::program {

/// A model with its loss and a batch to train it on.
class Workload {
 public:
  /// Throws:  BadInput naming the option that is out of range or does not apply to the model.
  explicit Workload(const WorkloadOptions& options);

  /// Batches have a random state of their own, from which step_seed() starts.
  void load_batch(std::int64_t index);
  /// Leaves gradients as the options say that a step finds them.
  void reset_gradients();
  /// The loss of the loaded batch, its forward pass inside `region` unless that is null.
  torch::Tensor loss(Region* region);

  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<torch::Tensor>& buffers() const { return buffers_; }
  /// Parameters, then buffers.
  [[nodiscard]] std::vector<torch::Tensor> state() const;
  /// For half precision under autocast; else none.
  [[nodiscard]] GradientScale& gradient_scale() { return gradient_scale_; }
  [[nodiscard]] const WorkloadOptions& options() const { return options_; }
  [[nodiscard]] std::uint64_t step_seed() const { return step_seed_; }
  [[nodiscard]] c10::Device device() const { return device_; }
  /// "resnet152, batch 4, image 64 x 64, float32 on cpu, input: data/digits.csv.gz"
  [[nodiscard]] std::string description() const;

 private:
  void move_to_device();
  void make_projection();
  void split_off_embeddings();
  torch::Tensor forward() const;
  [[nodiscard]] bool reads_text() const { return program::reads_text(entry_.family); }

  ModelEntry entry_;
  WorkloadOptions options_;
  std::uint64_t step_seed_ = 0;
  c10::Device device_;
  at::ScalarType type_;
  std::optional<at::ScalarType> autocast_type_;
  GradientScale gradient_scale_;
  Model model_;
  Batches batches_;
  std::optional<models::Stage> embeddings_;  // run outside the measured step
  torch::Tensor projection_;                 // of a text model's hidden states to one score a byte
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> buffers_;
  torch::Tensor input_;
  torch::Tensor target_;
};

}  // namespace gradrecomp::program
