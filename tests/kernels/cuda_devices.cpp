// The suites on the first CUDA device, where there is one and LibTorch's CUDA backend loads.
#include <dlfcn.h>

#include "aten_suite.h"
#include "cuda_device.h"

namespace gradrecomp::kernels {
namespace {

// Linked, the backend would keep this program from starting where CUDA's libraries are missing.
std::string missing_backend() {
  const std::string reason = missing_cuda_device();
  if (!reason.empty()) return reason;
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return std::string("LibTorch's CUDA backend does not load: ") + dlerror();
  }
  return torch::cuda::is_available() ? "" : "LibTorch finds no CUDA device";
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Cuda, AtenSuite,
                         ::testing::Values(TestDevice{c10::kCUDA, &missing_backend}));

}  // namespace gradrecomp::kernels
