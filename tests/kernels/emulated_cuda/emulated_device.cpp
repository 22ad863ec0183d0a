#include "emulated_device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace emulated_cuda {
namespace {

std::uint64_t volume(const dim3& size) { return std::uint64_t{size.x} * size.y * size.z; }

bool within(const dim3& size, unsigned x, unsigned y, unsigned z) {
  return volume(size) > 0 && size.x <= x && size.y <= y && size.z <= z;
}

// The limits of every card from compute capability 3.0 on.
bool is_possible(const Launch& launch) {
  return within(launch.grid, 0x7FFFFFFF, 65535, 65535) && within(launch.threads, 1024, 1024, 64) &&
         volume(launch.threads) <= 1024;
}

// x runs fastest.
dim3 position(std::uint64_t index, const dim3& size) {
  return {static_cast<unsigned>(index % size.x), static_cast<unsigned>(index / size.x % size.y),
          static_cast<unsigned>(index / size.x / size.y)};
}

std::vector<std::uint64_t> threads_in_order(const Launch& launch, Device& on) {
  std::vector<std::uint64_t> threads(launch.num_threads());
  std::iota(threads.begin(), threads.end(), 0);
  if (on.order == Order::falling) std::reverse(threads.begin(), threads.end());
  if (on.order == Order::shuffled) {
    std::shuffle(threads.begin(), threads.end(), std::mt19937_64(on.seed++));
  }
  return threads;
}

}  // namespace

std::uint64_t Launch::num_threads() const { return volume(grid) * volume(threads); }

void Launch::run_thread(std::uint64_t index) const {
  gridDim = grid;
  blockDim = threads;
  blockIdx = position(index / volume(threads), grid);
  threadIdx = position(index % volume(threads), threads);
  body();
}

Device& device() {
  static Device only;
  return only;
}

cudaError_t launch(Launch launch) {
  if (!is_possible(launch)) return device().last_error = cudaErrorInvalidConfiguration;
  if (device().runs_kernels) {
    for (const auto thread : threads_in_order(launch, device())) launch.run_thread(thread);
  }
  device().last_launch = std::move(launch);
  return cudaSuccess;
}

}  // namespace emulated_cuda

cudaError_t cudaGetLastError() {
  return std::exchange(emulated_cuda::device().last_error, cudaSuccess);
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
