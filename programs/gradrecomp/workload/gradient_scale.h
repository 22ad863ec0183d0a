#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace gradrecomp::program {

/// Keeps small gradients of a half precision backward from vanishing, as torch.amp.GradScaler does:
/// the loss is multiplied, the gradients divided again, and a step whose gradients overflowed is
/// left out.
class GradientScale {
 public:
  /// Without it gradients are as they come.
  GradientScale() = default;
  explicit GradientScale(double scale) : scale_(scale) {}

  void backward(const torch::Tensor& loss) const;

  /// Divides the gradients of `parameters`. False if one is not finite: leave this step out.
  bool unscale(const std::vector<torch::Tensor>& parameters);

  [[nodiscard]] double scale() const { return scale_; }

 private:
  double scale_ = 1;
  std::int64_t num_good_steps_ = 0;  ///< since the scale changed
};

}  // namespace gradrecomp::program
