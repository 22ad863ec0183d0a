#pragma once

#include <torch/torch.h>

#include <functional>

#include "support/modes.h"

namespace gradrecomp::test {

/// Trains one weight through `body(weight, x)`, which runs in the region.
inline HostileProgram weight_steps(
    const std::function<at::Tensor(const at::Tensor& weight, const at::Tensor& x)>& body) {
  return [=](const RunPart& run) {
    const auto weight = (torch::randn({6, 6}) * 0.3).requires_grad_();
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({4, 6});
      const auto y = run([&] { return body(weight, x); });
      y.pow(2).sum().backward();
      all.push_back(y.detach().clone());
      all.push_back(gradient_of(weight));
    }
    return all;
  };
}

}  // namespace gradrecomp::test
