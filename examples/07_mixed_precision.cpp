// Gradients of four micro-batches added up, in bfloat16 under autocast. The first of a step finds
// no gradients and is a sequence of its own, so there are two plans; replays cast as the forward
// pass did.
#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <iostream>

#include "gradrecomp/gradrecomp.h"

/// Autocast to bfloat16 on the CPU, in its scope.
struct Autocast {
  Autocast() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model;
  for (int i = 0; i < 4; ++i) {
    model->push_back(torch::nn::Linear(128, 128));
    model->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({128})));
    model->push_back(torch::nn::GELU());
  }
  gradrecomp::CheckpointedSequential net(model, {.max_overhead = 0.15});
  torch::optim::AdamW optimizer(net->parameters(), 1e-3);

  constexpr int kMicroBatches = 4;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    float total = 0;
    for (int i = 0; i < kMicroBatches; ++i) {
      const auto x = torch::randn({16, 128});
      torch::Tensor loss;
      {
        const Autocast autocast;
        loss = torch::mse_loss(net->forward(x).to(torch::kFloat), x) / kMicroBatches;
      }
      loss.backward();
      total += loss.item<float>();
    }
    optimizer.step();
    std::cout << "step " << step << "  loss " << total << '\n';
  }
  std::cout << net->brief_report() << '\n';
}
