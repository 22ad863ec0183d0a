#include "support/programs.h"

namespace gradrecomp::test {

Program sequential(torch::nn::Sequential model, std::vector<std::int64_t> sizes) {
  const auto forward = [model](const Tensors& inputs) mutable {
    at::Tensor x = inputs[0];
    for (std::size_t i = 0; i < model->size(); ++i) {
      begin_stage(std::to_string(i));
      x = (model->begin() + i)->forward(x);
    }
    return Tensors{x};
  };
  return program(model.ptr(), forward, std::move(sizes));
}

Program function(Forward forward, std::vector<std::int64_t> sizes) {
  return program(std::make_shared<torch::nn::Module>(), std::move(forward), std::move(sizes));
}

Program program(std::shared_ptr<torch::nn::Module> module, Forward forward,
                std::vector<std::int64_t> sizes) {
  return {std::move(module), std::move(forward),
          [sizes] { return Tensors{torch::randn(sizes).requires_grad_()}; }};
}

void expect_exact(const std::function<Program()>& make, int num_steps) {
  EXPECT_GT(expect_same_training(make, every_policy(), num_steps), 0) << "nothing was replayed";
}

}  // namespace gradrecomp::test
