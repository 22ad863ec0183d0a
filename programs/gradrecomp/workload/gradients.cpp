#include "workload/gradients.h"

#include <torch/torch.h>

namespace gradrecomp::program {

std::string_view to_string(Gradients gradients) {
  return gradients == Gradients::preallocated ? "preallocated" : "none";
}

void reset_gradients(const std::vector<torch::Tensor>& parameters, Gradients gradients) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : parameters) {
    auto& gradient = parameter.mutable_grad();
    if (gradients == Gradients::none) {
      gradient.reset();
    } else if (gradient.defined()) {
      gradient.zero_();
    } else {
      gradient = torch::zeros_like(parameter);
    }
  }
}

}  // namespace gradrecomp::program
