#include "kernels/arithmetic/half.h"
#include "kernels/arithmetic/pooling.h"
#include "kernels/arithmetic/words.h"
#include "launch.h"
#include "launch_kernel.cuh"

namespace gradrecomp::kernels::cuda {
namespace {

// Calls body(i) for i in 0..count-1, one a thread.
template <class Body>
__global__ void __launch_bounds__(kThreads) for_each(std::int64_t count, Body body) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < count; i += stride) body(i);
}

template <class Body>
cudaError_t launch_for_each(std::int64_t count, Body body, cudaStream_t stream) {
  launch_kernel(for_each<Body>, num_blocks_for(count), kThreads, stream, count, body);
  return cudaGetLastError();
}

template <class Word>
struct PackByte {
  const Word* mask;
  std::uint8_t* bits;
  std::int64_t num_elements;

  __device__ void operator()(std::int64_t byte) const {
    unsigned packed = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const std::int64_t element = byte * 8 + i;
      if (element < num_elements && mask[element] != 0) packed |= 1U << i;
    }
    bits[byte] = static_cast<std::uint8_t>(packed);
  }
};

template <class Word>
struct UnpackElement {
  const std::uint8_t* bits;
  Word* mask;
  Word one;

  __device__ void operator()(std::int64_t i) const {
    mask[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? one : Word{0};
  }
};

struct PackOffset {
  PackIndices args;

  __device__ void operator()(std::int64_t i) const {
    args.offsets[i] = offset_of(args.pooling, window_at(args.pooling, i), args.indices[i]);
  }
};

struct UnpackOffset {
  UnpackIndices args;

  __device__ void operator()(std::int64_t i) const {
    args.indices[i] = index_of(args.pooling, window_at(args.pooling, i), args.offsets[i]);
  }
};

struct RoundFloat {
  RoundFloats args;

  __device__ void operator()(std::int64_t i) const {
    args.rounded[i] = to_finite_bfloat16(args.numbers[i]);
  }
};

struct WidenFloat {
  WidenFloats args;

  __device__ void operator()(std::int64_t i) const {
    args.numbers[i] = from_bfloat16(args.rounded[i]);
  }
};

template <class Word>
cudaError_t launch_pack(const PackMask& args, cudaStream_t stream) {
  const PackByte<Word> body{static_cast<const Word*>(args.mask),
                            static_cast<std::uint8_t*>(args.bits), args.num_elements};
  return launch_for_each(packed_mask_bytes(args.num_elements), body, stream);
}

template <class Word>
cudaError_t launch_unpack(const UnpackMask& args, cudaStream_t stream) {
  const UnpackElement<Word> body{static_cast<const std::uint8_t*>(args.bits),
                                 static_cast<Word*>(args.mask), static_cast<Word>(args.one)};
  return launch_for_each(args.num_elements, body, stream);
}

}  // namespace

cudaError_t launch(const PackMask& args, cudaStream_t stream) {
  return with_word(args.element_bytes,
                   [&](auto word) { return launch_pack<decltype(word)>(args, stream); });
}

cudaError_t launch(const UnpackMask& args, cudaStream_t stream) {
  return with_word(args.element_bytes,
                   [&](auto word) { return launch_unpack<decltype(word)>(args, stream); });
}

cudaError_t launch(const PackIndices& args, cudaStream_t stream) {
  return launch_for_each(args.pooling.num_outputs(), PackOffset{args}, stream);
}

cudaError_t launch(const UnpackIndices& args, cudaStream_t stream) {
  return launch_for_each(args.pooling.num_outputs(), UnpackOffset{args}, stream);
}

cudaError_t launch(const RoundFloats& args, cudaStream_t stream) {
  return launch_for_each(args.num_elements, RoundFloat{args}, stream);
}

cudaError_t launch(const WidenFloats& args, cudaStream_t stream) {
  return launch_for_each(args.num_elements, WidenFloat{args}, stream);
}

}  // namespace gradrecomp::kernels::cuda
