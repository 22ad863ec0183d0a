#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "gradrecomp/memory_meter.h"

namespace gradrecomp::test {

/// Counts CPU bytes from before its first test.
class LiveMemory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_counter(); }
  void SetUp() override { torch::manual_seed(1); }
};

inline std::int64_t live_bytes() { return memory_counter(c10::kCPU).current_bytes; }

/// Zero gradients in place, so that no step allocates them.
inline void preallocate_gradients(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) {
    parameter.mutable_grad() = torch::zeros_like(parameter);
  }
}

/// A random leaf whose gradient is allocated already.
inline at::Tensor leaf_with_gradient(std::vector<std::int64_t> sizes) {
  auto leaf = torch::randn(sizes).requires_grad_();
  leaf.mutable_grad() = torch::zeros_like(leaf);
  return leaf;
}

/// Measured activation peak of one step, on one device.
inline std::int64_t peak_of(const std::function<at::Tensor()>& loss,
                            c10::Device device = c10::kCPU) {
  const MemoryMeter meter(device);
  loss().backward();
  return meter.measured_peak_bytes();
}

/// Bytes that `forward` leaves alive beside its result.
inline std::int64_t retained_by(const std::function<at::Tensor()>& forward) {
  const MemoryMeter meter(c10::kCPU);
  const auto result = forward();
  return meter.growth_bytes() - static_cast<std::int64_t>(result.nbytes());
}

/// y_i = sin(y_(i-1)): every sine saves its input.
inline at::Tensor sine_chain(at::Tensor x, int length = 6) {
  for (int i = 0; i < length; ++i) x = x.sin();
  return x;
}

}  // namespace gradrecomp::test
