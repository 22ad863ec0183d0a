#pragma once

#include "cuda_device.h"
#include "test_device.h"

namespace gradrecomp::kernels {

/// Tests that compare CUDA kernels with their twins on the CPU.
class CudaTwinTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = missing_cuda_device();
    if (!reason.empty()) GTEST_SKIP() << reason;
    torch::manual_seed(1);
  }
  const Table& cpu_ = *table(c10::kCPU);
  const Table& cuda_ = *table(c10::kCUDA);
};

/// relu(-0) is -0 on the CPU and +0 on CUDA, as in LibTorch.
inline torch::Tensor without_negative_zeros(const torch::Tensor& x) { return x + 0; }

}  // namespace gradrecomp::kernels
