#pragma once

#include <torch/torch.h>

namespace gradrecomp::test {

/// Adds 1 to its input through a pointer and tells autograd alone, by mark_dirty().
struct DirtyAdd : torch::autograd::Function<DirtyAdd> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    for (std::int64_t i = 0; i < x.numel(); ++i) x.data_ptr<float>()[i] += 1;
    context->mark_dirty({x});
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

}  // namespace gradrecomp::test
