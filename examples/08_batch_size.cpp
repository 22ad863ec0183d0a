// The largest batch whose activations fit: two steps are profiled, every other size is predicted,
// and a real step confirms the answer.
#include <torch/torch.h>

#include <iostream>

#include "gradrecomp/gradrecomp.h"
#include "gradrecomp/plan/batch_plan.h"

namespace plan = gradrecomp::plan;

int main() {
  gradrecomp::install_cpu_counter();  // before anything is allocated
  torch::manual_seed(0);
  torch::nn::Sequential model;
  for (int i = 0; i < 10; ++i) {
    model->push_back(torch::nn::Linear(256, 256));
    model->push_back(torch::nn::ReLU());
  }
  for (auto& parameter : model->parameters()) {
    parameter.mutable_grad() = torch::zeros_like(parameter);  // so that no step allocates it
  }
  const auto step = [&](gradrecomp::Region& region, std::int64_t batch) {
    const auto x = torch::randn({batch, 256});
    const gradrecomp::MemoryMeter meter(torch::kCPU);
    region.run([&] { return model->forward(x); }).pow(2).mean().backward();
    return meter.measured_peak_bytes();
  };
  const auto graph_at = [&](std::int64_t batch) {
    gradrecomp::Region region({.policy = "keep_all"});
    step(region, batch);
    return region.graph();
  };

  const plan::BatchFit fit(graph_at(64), 64, graph_at(128), 128);
  constexpr std::int64_t kBytes = 4 << 20;
  const auto found = plan::largest_batch(
      fit, {.max_peak_bytes = kBytes, .max_overhead = 0.3, .cost = plan::CostModel::flops});
  std::cout << "batch " << found.batch << " should fit: " << found.plan.brief_report() << '\n';

  gradrecomp::Region region({.max_peak_bytes = kBytes, .cost = plan::CostModel::flops});
  step(region, found.batch);
  std::cout << "a planned step takes " << step(region, found.batch) << " of " << kBytes
            << " bytes\n";
}
