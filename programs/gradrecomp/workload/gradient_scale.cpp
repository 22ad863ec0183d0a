#include "workload/gradient_scale.h"

#include <torch/torch.h>

namespace gradrecomp::program {

GradientScale::GradientScale(double scale, c10::Device device)
    : scale_(torch::full({}, scale, device)),
      num_good_steps_(torch::zeros({}, torch::TensorOptions(torch::kInt).device(device))) {}

void GradientScale::backward(const torch::Tensor& loss) const {
  (scale_.defined() ? loss * scale_ : loss).backward();
}

bool GradientScale::unscale(const std::vector<torch::Tensor>& parameters) {
  // Those of torch.amp.GradScaler.
  constexpr double kGrowth = 2;
  constexpr double kBackoff = 0.5;
  constexpr std::int64_t kGrowthInterval = 2000;
  if (!scale_.defined()) return true;
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  auto overflowed = torch::zeros_like(scale_);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflowed, scale_.reciprocal());
  at::_amp_update_scale_(scale_, num_good_steps_, overflowed, kGrowth, kBackoff, kGrowthInterval);
  return overflowed.item<float>() == 0;
}

double GradientScale::scale() const { return scale_.defined() ? scale_.item<double>() : 1; }

}  // namespace gradrecomp::program
