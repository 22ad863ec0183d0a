#include "workload/gradient_scale.h"

#include <torch/torch.h>

namespace gradrecomp::program {
namespace {

// Those of torch.amp.GradScaler.
constexpr double kBackoff = 0.5;
constexpr double kGrowth = 2;
constexpr std::int64_t kGrowthInterval = 2000;

bool are_finite(const std::vector<torch::Tensor>& parameters) {
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined() && !parameter.grad().isfinite().all().item<bool>()) return false;
  }
  return true;
}

}  // namespace

void GradientScale::backward(const torch::Tensor& loss) const {
  (scale_ == 1 ? loss : loss * scale_).backward();
}

bool GradientScale::unscale(const std::vector<torch::Tensor>& parameters) {
  if (scale_ == 1) return true;
  const torch::NoGradGuard no_grad;
  if (!are_finite(parameters)) {
    scale_ *= kBackoff;
    num_good_steps_ = 0;
    return false;
  }
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(1 / scale_);
  }
  if (++num_good_steps_ == kGrowthInterval) {
    scale_ *= kGrowth;
    num_good_steps_ = 0;
  }
  return true;
}

}  // namespace gradrecomp::program
