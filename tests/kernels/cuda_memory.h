#pragma once

#include <cuda_runtime_api.h>
#include <torch/torch.h>

#include <algorithm>

#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// A copy of a CPU tensor's memory on the device, without LibTorch's CUDA backend.
class CudaCopy {
 public:
  /// `skipped` elements lie before the data, which are aligned if it is 0.
  explicit CudaCopy(const torch::Tensor& x, std::int64_t skipped = 0)
      : like_(x), skipped_bytes_(x.defined() ? skipped * x.element_size() : 0) {
    if (!x.defined()) return;
    // No more than that, or reads past the tensor would not be seen; but at least an address.
    const auto size = std::max<std::size_t>(1, skipped_bytes_ + num_bytes());
    TORCH_CHECK(cudaMalloc(&memory_, size) == cudaSuccess);
    TORCH_CHECK(cudaMemcpy(data(), x.data_ptr(), num_bytes(), cudaMemcpyHostToDevice) ==
                cudaSuccess);
  }
  ~CudaCopy() { cudaFree(memory_); }
  CudaCopy(const CudaCopy&) = delete;
  CudaCopy& operator=(const CudaCopy&) = delete;

  [[nodiscard]] void* data() const {
    return memory_ == nullptr ? nullptr : static_cast<char*>(memory_) + skipped_bytes_;
  }
  /// What is there now, after all work on the device.
  [[nodiscard]] torch::Tensor back() const {
    auto x = torch::empty_like(like_);
    TORCH_CHECK(cudaMemcpy(x.data_ptr(), data(), num_bytes(), cudaMemcpyDeviceToHost) ==
                cudaSuccess);
    return x;
  }

 private:
  [[nodiscard]] std::size_t num_bytes() const { return like_.numel() * like_.element_size(); }

  torch::Tensor like_;
  std::size_t skipped_bytes_;
  void* memory_ = nullptr;
};

}  // namespace gradrecomp::kernels
