#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

// A device that runs the threads of a kernel one by one, each to its end: exact for kernels
// without barriers, and ours have none.
namespace emulated_cuda {

struct Launch {
  dim3 grid, threads;
  cudaStream_t stream = nullptr;
  std::function<void()> body;  ///< the kernel with its arguments, for the current thread

  [[nodiscard]] std::uint64_t num_threads() const;
  void run_thread(std::uint64_t index) const;
};

enum class Order { rising, falling, shuffled };

struct Device {
  Order order = Order::shuffled;
  std::uint64_t seed = 1;    ///< of the next shuffled launch
  bool runs_kernels = true;  ///< if not, launches are checked and kept only
  Launch last_launch = {};
  cudaError_t last_error = cudaSuccess;
};

/// The only one.
Device& device();

/// Runs a kernel in the device's order.
///
/// Returns: cudaErrorInvalidConfiguration for grids and blocks that no card takes.
cudaError_t launch(Launch launch);

}  // namespace emulated_cuda
