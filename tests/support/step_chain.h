#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/region.h"

namespace gradrecomp::test {

/// Twelve stages of scaling, GELU, Linear and a residual sum. Only the sum crosses their
/// boundaries, and autograd does not save it.
class StepChain {
 public:
  static constexpr int kNumStages = 12;

  StepChain() {
    torch::manual_seed(1);
    input_ = torch::randn({16, 32});
    for (int i = 0; i < kNumStages; ++i) {
      linears_.emplace_back(32, 32);
      for (auto& parameter : linears_.back()->parameters()) {
        parameter.mutable_grad() = torch::zeros_like(parameter);
        parameters_.push_back(parameter);
      }
    }
  }

  at::Tensor forward() {
    at::Tensor x = input_;
    for (int i = 0; i < kNumStages; ++i) {
      begin_stage("stage" + std::to_string(i));
      x = x + linears_[i]->forward(torch::gelu(x * 0.5));
    }
    return x.pow(2).sum();
  }

  /// One step in `region`; returns its measured peak.
  std::int64_t step(Region& region) {
    for (auto& parameter : parameters_) parameter.mutable_grad().zero_();
    const MemoryMeter meter(c10::kCPU);
    region.run([&] { return forward(); }).backward();
    return meter.measured_peak_bytes();
  }

  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const auto& parameter : parameters_) all.push_back(parameter.grad().clone());
    return all;
  }

 private:
  at::Tensor input_;
  std::vector<torch::nn::Linear> linears_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace gradrecomp::test
