// checkpoint() around blocks that you choose yourself, and what it does to the peak of a step.
#include <torch/torch.h>

#include <iostream>
#include <vector>

#include "gradrecomp/gradrecomp.h"

torch::nn::Sequential block() {
  return torch::nn::Sequential(torch::nn::Linear(256, 1024), torch::nn::GELU(),
                               torch::nn::Dropout(0.1), torch::nn::Linear(1024, 256));
}

int main() {
  gradrecomp::install_cpu_counter();  // before anything is allocated
  torch::manual_seed(0);
  std::vector<torch::nn::Sequential> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(block());
  const auto input = torch::randn({1024, 256});

  for (const bool drops : {false, true}) {
    torch::manual_seed(1);
    for (auto& each : blocks) each->zero_grad();
    const gradrecomp::MemoryMeter meter(torch::kCPU);
    auto x = input;
    for (auto& each : blocks) {
      const auto forward = [&](const torch::Tensor& y) { return y + each->forward(y); };
      x = drops ? gradrecomp::checkpoint(forward, x) : forward(x);
    }
    x.pow(2).mean().backward();
    std::cout << (drops ? "checkpointed  " : "plain         ") << meter.measured_peak_bytes()
              << " bytes at the peak, gradient "
              << blocks[0]->parameters()[0].grad().norm().item<float>() << '\n';
  }
}
