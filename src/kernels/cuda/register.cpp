// Makes the CUDA kernels known when the program is loaded.
#include <c10/util/Exception.h>

#include "gradrecomp/export.h"
#include "gradrecomp/kernels/check.h"
#include "gradrecomp/kernels/table.h"
#include "launch.h"

namespace gradrecomp::kernels::cuda {
namespace {

bool is_empty(const BatchNorm& args) {
  return args.num_images == 0 || args.num_channels == 0 || args.inner == 0;
}
bool is_empty(const LayerNorm& args) { return args.num_rows == 0 || args.num_columns == 0; }
bool is_empty(const PackIndices& args) { return args.pooling.num_outputs() == 0; }
bool is_empty(const UnpackIndices& args) { return args.pooling.num_outputs() == 0; }
bool is_empty(const HashMemory& args) { return args.parts.empty(); }
template <class Args>
bool is_empty(const Args& args) {
  return args.num_elements == 0;
}

template <class Args>
void enqueue(const Args& args, Stream stream) {
  check(args);
  if (is_empty(args)) return;
  const cudaError_t error = launch(args, static_cast<cudaStream_t>(stream));
  TORCH_CHECK(error == cudaSuccess,
              "GradRecomp's CUDA kernel could not be launched: ", cudaGetErrorString(error),
              ". If the message speaks of an image, build with this card's number in "
              "CMAKE_CUDA_ARCHITECTURES; else an earlier kernel may have failed.");
}

constexpr Table kCuda{.batch_norm_apply = &enqueue<BatchNorm>,
                      .layer_norm_apply = &enqueue<LayerNorm>,
                      .apply_chain = &enqueue<PointwiseChain>,
                      .pack_mask = &enqueue<PackMask>,
                      .unpack_mask = &enqueue<UnpackMask>,
                      .pack_indices = &enqueue<PackIndices>,
                      .unpack_indices = &enqueue<UnpackIndices>,
                      .round_floats = &enqueue<RoundFloats>,
                      .widen_floats = &enqueue<WidenFloats>,
                      .hash_memory = &enqueue<HashMemory>};

bool registered() {
  register_table(c10::kCUDA, &kCuda);
  return true;
}

}  // namespace
}  // namespace gradrecomp::kernels::cuda

// Programs ask their linker for this name, or it would leave the library out.
extern "C" GRADRECOMP_API const bool gradrecomp_cuda_kernels;
extern "C" const bool gradrecomp_cuda_kernels = gradrecomp::kernels::cuda::registered();
