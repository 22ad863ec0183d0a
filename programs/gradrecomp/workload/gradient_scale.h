#pragma once

#include <torch/types.h>

#include <vector>

namespace gradrecomp::program {

/// Keeps small gradients of a half precision backward from vanishing, as torch.amp.GradScaler does:
/// the loss is multiplied, the gradients divided again, and a step whose gradients overflowed is
/// left out.
class GradientScale {
 public:
  /// Without it gradients are as they come.
  GradientScale() = default;
  GradientScale(double scale, c10::Device device);

  void backward(const torch::Tensor& loss) const;

  /// Divides the gradients of `parameters`. False if one is not finite: leave this step out.
  bool unscale(const std::vector<torch::Tensor>& parameters);

  [[nodiscard]] double scale() const;

 private:
  torch::Tensor scale_;           // float32; undefined: 1
  torch::Tensor num_good_steps_;  // since the scale changed
};

}  // namespace gradrecomp::program
