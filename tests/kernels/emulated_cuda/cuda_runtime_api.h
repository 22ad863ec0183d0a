// What our kernels and their tests use of CUDA, done by the processor. This folder stands in for
// the toolkit's include folder.
#pragma once

#include <cstddef>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
using cudaStream_t = struct CUstream_st*;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;

  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1)
      : x(of_x), y(of_y), z(of_z) {}
};

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);

/// Memory that ends, but for what alignment needs, where an inaccessible page begins.
cudaError_t cudaMalloc(void** memory, std::size_t num_bytes);
/// Fails the test if something was written around the memory.
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t num_bytes, cudaMemcpyKind kind);
