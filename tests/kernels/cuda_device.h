#pragma once

#include <string>

#ifdef GRADRECOMP_CUDA_KERNELS
#include <cuda_runtime_api.h>
#endif

#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// Why our CUDA kernels cannot run; empty if they can.
inline std::string missing_cuda_device() {
#ifdef GRADRECOMP_CUDA_KERNELS
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(error);
  return count > 0 ? "" : "no CUDA device";
#else
  return "built without CUDA kernels: CMake found no CUDA compiler";
#endif
}

}  // namespace gradrecomp::kernels
