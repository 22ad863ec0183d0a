#include <algorithm>

#include "kernels/arithmetic/hash.h"
#include "launch.h"
#include "launch_kernel.cuh"

namespace gradrecomp::kernels::cuda {
namespace {

constexpr std::size_t kMostParts = 64;

// Travels to the device by value.
struct Parts {
  HashedMemory parts[kMostParts];
  std::int64_t first_blocks[kMostParts];  // of all that have lower numbers
  int size;
};

// One lane a thread: what 32 of them load together lies side by side.
__global__ void __launch_bounds__(kThreads) hash_lanes(Parts all, std::int64_t num_lanes) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  int part = 0;
  for (; i < num_lanes; i += stride) {
    const std::int64_t block = i / kHashLanes;
    while (part + 1 < all.size && all.first_blocks[part + 1] <= block) ++part;
    const HashedMemory& memory = all.parts[part];
    const std::int64_t own_block = block - all.first_blocks[part];
    const std::int64_t lane = i % kHashLanes;
    const bool aligned = reinterpret_cast<std::uintptr_t>(memory.bytes) % kHashWordBytes == 0;
    memory.hashes[own_block * kHashLanes + lane] = hash_of_lane(memory, own_block, lane, aligned);
  }
}

cudaError_t launch_some(std::span<const HashedMemory> some, cudaStream_t stream) {
  Parts all{};
  std::int64_t num_blocks = 0;
  for (const HashedMemory& memory : some) {
    if (memory.num_bytes == 0) continue;
    all.parts[all.size] = memory;
    all.first_blocks[all.size++] = num_blocks;
    num_blocks += num_hash_blocks(memory.num_bytes);
  }
  if (all.size == 0) return cudaSuccess;
  const std::int64_t num_lanes = num_blocks * kHashLanes;
  launch_kernel(hash_lanes, num_blocks_for(num_lanes), kThreads, stream, all, num_lanes);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch(const HashMemory& args, cudaStream_t stream) {
  for (std::size_t first = 0; first < args.parts.size(); first += kMostParts) {
    const auto some = args.parts.subspan(first, std::min(kMostParts, args.parts.size() - first));
    if (const cudaError_t error = launch_some(some, stream); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace gradrecomp::kernels::cuda
