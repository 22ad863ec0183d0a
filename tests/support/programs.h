#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "gradrecomp/region.h"
#include "support/training.h"

namespace gradrecomp::test {

/// Every child of `model` as a stage, on random inputs of `sizes` that require a gradient.
Program sequential(torch::nn::Sequential model, std::vector<std::int64_t> sizes);

/// A function without parameters, on one random input of `sizes` that requires a gradient.
Program function(Forward forward, std::vector<std::int64_t> sizes);

/// `forward` over the parameters of `module`, on one random input that requires a gradient.
Program program(std::shared_ptr<torch::nn::Module> module, Forward forward,
                std::vector<std::int64_t> sizes);

/// One of the models of models/, stage by stage.
template <typename Model>
Program staged(Model model, std::function<at::Tensor()> input) {
  return {model.ptr(),
          [model](const Tensors& inputs) mutable {
            at::Tensor x = inputs[0];
            for (auto& stage : model->stages()) {
              begin_stage(stage.name);
              x = stage.forward(x);
            }
            return Tensors{x};
          },
          [input] { return Tensors{input()}; }};
}

/// expect_same_training() under every policy, with something replayed.
void expect_exact(const std::function<Program()>& make, int num_steps = 3);

}  // namespace gradrecomp::test
