// An nn::Sequential under a 10% budget: wrap it, train it, look at what the plan keeps.
#include <torch/torch.h>

#include <iostream>

#include "gradrecomp/gradrecomp.h"

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model;
  for (int i = 0; i < 6; ++i) {
    model->push_back(torch::nn::Linear(64, 64));
    model->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})));
    model->push_back(torch::nn::GELU());
  }
  gradrecomp::CheckpointedSequential net(model, {.max_overhead = 0.1});
  torch::optim::SGD optimizer(net->parameters(), 0.01);

  for (int step = 0; step < 3; ++step) {
    const auto x = torch::randn({32, 64});
    optimizer.zero_grad();
    auto loss = (net->forward(x) - x).pow(2).mean();  // step 1 profiles and plans
    loss.backward();                                  // dropped values are rematerialized
    optimizer.step();
    std::cout << "step " << step << "  loss " << loss.item<float>() << "  replayed ops "
              << net->region().last_step().num_replayed_ops << '\n';
  }
  std::cout << net->full_report();
}
