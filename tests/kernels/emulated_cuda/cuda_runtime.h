// CUDA's words for kernels, and their launch.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>

#include <tuple>
#include <utility>

#include "emulated_device.h"

#define __global__
#define __device__
#define __launch_bounds__(threads)

inline dim3 gridDim, blockDim;
inline dim3 blockIdx, threadIdx;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

template <class... Expected, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...),
                               Actual&&... args) {
  const std::tuple<Expected...> parameters(std::forward<Actual>(args)...);
  return emulated_cuda::launch({config->gridDim, config->blockDim, config->stream,
                                [kernel, parameters] { std::apply(kernel, parameters); }});
}
