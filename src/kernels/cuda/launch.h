#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "gradrecomp/kernels/batch_norm.h"
#include "gradrecomp/kernels/compact.h"
#include "gradrecomp/kernels/hash.h"
#include "gradrecomp/kernels/layer_norm.h"
#include "gradrecomp/kernels/pointwise.h"

namespace gradrecomp::kernels::cuda {

/// Enqueue one kernel. Arguments were checked and are not empty.
cudaError_t launch(const BatchNorm& args, cudaStream_t stream);
cudaError_t launch(const LayerNorm& args, cudaStream_t stream);
cudaError_t launch(const PointwiseChain& chain, cudaStream_t stream);
cudaError_t launch(const PackMask& args, cudaStream_t stream);
cudaError_t launch(const UnpackMask& args, cudaStream_t stream);
cudaError_t launch(const PackIndices& args, cudaStream_t stream);
cudaError_t launch(const UnpackIndices& args, cudaStream_t stream);
cudaError_t launch(const RoundFloats& args, cudaStream_t stream);
cudaError_t launch(const WidenFloats& args, cudaStream_t stream);
cudaError_t launch(const HashMemory& args, cudaStream_t stream);

inline constexpr int kThreads = 256;

/// Blocks of threads for `num_items`, one a thread, up to what fills any card many times over;
/// kernels go on in strides of the grid.
inline int num_blocks_for(std::int64_t num_items) {
  return static_cast<int>(std::min<std::int64_t>((num_items + kThreads - 1) / kThreads, 1 << 16));
}

/// True if 16 bytes can be loaded and stored at once at each of them.
template <class... Pointers>
bool all_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace gradrecomp::kernels::cuda
