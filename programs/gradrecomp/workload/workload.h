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

namespace gradrecomp::program {

/// What is trained, on what and where, as the user says it.
struct WorkloadOptions {
  std::string model = "resnet18";
  std::int64_t batch = 4;
  std::optional<std::int64_t> image_size = {};  ///< 224 where nothing is given
  std::optional<std::int64_t> sequence = {};    ///< 128 where nothing is given
  std::optional<std::int64_t> layers = {};      ///< fewer encoder layers
  std::string device = "cpu";
  std::string dtype = "float32";
  std::string autocast = {};   ///< type of mixed precision; empty: none
  bool channels_last = false;  ///< images in NHWC
  std::string data = {};       ///< empty: random input
  std::uint64_t seed = 0;
};

/// A model with its loss and a batch to train it on.
class Workload {
 public:
  /// Throws:  BadInput naming the option that is out of range or does not apply to the model.
  explicit Workload(const WorkloadOptions& options);

  void load_batch(std::int64_t index);
  /// The loss of the loaded batch, its forward pass inside `region` unless that is null.
  torch::Tensor loss(Region* region);

  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<torch::Tensor>& buffers() const { return buffers_; }
  /// Of half precision under autocast; else none.
  [[nodiscard]] GradientScale& gradient_scale() { return gradient_scale_; }
  [[nodiscard]] const WorkloadOptions& options() const { return options_; }
  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] bool reads_text() const { return entry_.family == ModelFamily::bert; }
  /// "resnet152, batch 4, image 64 x 64, float32 on cpu, data/digits.csv.gz"
  [[nodiscard]] std::string description() const;

 private:
  void move_to_device();
  void make_projection();
  void split_off_embeddings();
  torch::Tensor forward() const;
  [[nodiscard]] std::string type_description() const;

  WorkloadOptions options_;
  ModelEntry entry_;
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
