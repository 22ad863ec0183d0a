#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "gradrecomp/version.h"

namespace gradrecomp::kernels::cuda {

/// Enqueues `kernel`; cudaGetLastError() then tells whether it could be.
///
/// A function instead of <<<>>>, so that kernels are plain C++: tests compile them without CUDA.
template <class... Parameters>
void launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 threads, cudaStream_t stream,
                   const std::type_identity_t<Parameters>&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  config.stream = stream;
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, args...));
}

}  // namespace gradrecomp::kernels::cuda
