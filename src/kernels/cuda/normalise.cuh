#pragma once

#include "kernels/arithmetic/normalise.h"
#include "launch.h"
#include "launch_kernel.cuh"
#include "storage.cuh"

// Two kernels serve both norms: memory runs through planes of one channel each, or through rows
// that hold all channels.
namespace gradrecomp::kernels::cuda {

/// A short vector of coefficients, float32 or of another dtype.
struct Coefficient {
  const void* stored;
  Dtype dtype;
  float absent;  ///< where `stored` is null

  __device__ float at(std::int64_t i) const {
    if (stored == nullptr) return absent;
    switch (dtype) {
      case Dtype::float32:
        return static_cast<const float*>(stored)[i];
      case Dtype::float16:
        return to_float(static_cast<const __half*>(stored)[i]);
      case Dtype::bfloat16:
        return to_float(static_cast<const __nv_bfloat16*>(stored)[i]);
    }
    return absent;
  }
};

/// The four numbers that normalise one element.
struct Numbers {
  float mean, invstd, gamma, beta;
};

struct Coefficients {
  Coefficient mean, invstd, gamma, beta;

  // A call, because inlined for each element of a pack it would be most of the kernel.
  [[nodiscard]] __attribute__((noinline)) __device__ Numbers at(std::int64_t statistic,
                                                                std::int64_t weight) const {
    return {mean.at(statistic), invstd.at(statistic), gamma.at(weight), beta.at(weight)};
  }
};

template <class T>
struct Tensors {
  const T* x;
  const T* residual;  ///< null: none
  T* y;
  Rounding rounding;
  bool relu;
  bool aligned;
};

template <class T>
__device__ void normalise_values(Rounding rounding, const Numbers* by, Values<T>& v) {
  const auto as = [&]<Rounding kRounding>() {
    v.each([&](float x, int i) {
      return normalise<kRounding>(x, by[i].mean, by[i].invstd, by[i].gamma, by[i].beta);
    });
  };
  using enum Rounding;
  switch (rounding) {
    case affine_fused:
      return as.template operator()<affine_fused>();
    case affine_separate:
      return as.template operator()<affine_separate>();
    case centred_fused:
      return as.template operator()<centred_fused>();
    case centred_separate:
      return as.template operator()<centred_separate>();
    case weighted_fused:
      return as.template operator()<weighted_fused>();
    case weighted_separate:
      return as.template operator()<weighted_separate>();
    case centred_affine_fused:
      return as.template operator()<centred_affine_fused>();
    case centred_affine_separate:
      return as.template operator()<centred_affine_separate>();
    case shifted_fused:
      return as.template operator()<shifted_fused>();
    case shifted_separate:
      return as.template operator()<shifted_separate>();
  }
}

/// Normalises the pack at `first`, of which `size` elements exist, element i by by[i].
template <class T>
__device__ void normalise_pack(const Tensors<T>& t, std::int64_t first, std::int64_t size,
                               const Numbers* by) {
  const bool aligned = opaque(t.aligned) != 0;
  Values<T> v(load_pack(t.x, first, size, aligned));
  normalise_values(static_cast<Rounding>(opaque(static_cast<int>(t.rounding))), by, v);
  if (opaque(t.residual != nullptr) != 0) {
    const auto residual = load_pack(t.residual, first, size, aligned);
    v.each([&](float x, int i) { return x + to_float(residual.values[i]); });
  }
  if (opaque(t.relu) != 0) v.each([](float x, int) { return relu(x); });
  store_pack(v.packed(), t.y, first, size, aligned);
}

/// x [planes, inner], plane p of channel p % num_channels.
///
/// Threads walk over packs of the flat tensor, so that short and odd planes cost no more than long
/// ones. Index is 32 bits wide where that suffices: a division per pack is the dearest part.
template <class T, class Index>
__global__ void __launch_bounds__(kThreads)
    normalise_planes(Tensors<T> t, Coefficients coefficients, Index num_elements,
                     Index num_channels, Index inner) {
  constexpr int kSize = Pack<T>::kSize;
  const Index stride = static_cast<Index>(gridDim.x) * kThreads * kSize;
  Index first = (static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x) * kSize;
  for (; first < num_elements; first += stride) {
    const Index plane = first / inner;
    Index offset = first - plane * inner;
    Index channel = plane % num_channels;
    Numbers by[kSize];
    by[0] = coefficients.at(channel, channel);
#pragma unroll
    for (int i = 1; i < kSize; ++i) {
      by[i] = by[i - 1];
      if (++offset < inner) continue;
      offset = 0;
      channel = channel + 1 == num_channels ? 0 : channel + 1;
      by[i] = coefficients.at(channel, channel);
    }
    normalise_pack(t, first, num_elements - first, by);
  }
}

/// x [num_rows, num_columns]; weights belong to columns, statistics to columns or to rows.
///
/// A thread keeps the coefficients of its pack of columns and walks down the rows.
template <class T, bool kRowStatistics>
__global__ void __launch_bounds__(kThreads)
    normalise_rows(Tensors<T> t, Coefficients coefficients, std::int64_t num_rows,
                   std::int64_t num_columns) {
  constexpr int kSize = Pack<T>::kSize;
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
  const std::int64_t size = num_columns - column;
  if (size <= 0) return;
  Numbers by[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    if (i < size) by[i] = coefficients.at(kRowStatistics ? 0 : column + i, column + i);
  }
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; row < num_rows; row += stride) {
    if constexpr (kRowStatistics) {
      const Numbers of_row = coefficients.at(row, column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) by[i].mean = of_row.mean, by[i].invstd = of_row.invstd;
    }
    normalise_pack(t, row * num_columns + column, size, by);
  }
}

/// Threads side by side along a row of `num_packs`, the rest of a block below one another.
inline dim3 row_threads(std::int64_t num_packs) {
  unsigned across = 1;
  while (across < 32 && across < num_packs) across *= 2;
  return {across, kThreads / across};
}

/// `t.aligned` says whether the tensors are; whether their rows are is found here.
///
/// Columns lie along x, where a grid may have 2^31 - 1 blocks: more than fit into any card. Along y
/// it may have 65535.
template <bool kRowStatistics, class T>
void launch_rows(Tensors<T> t, const Coefficients& coefficients, std::int64_t num_rows,
                 std::int64_t num_columns, cudaStream_t stream) {
  const std::int64_t num_packs = (num_columns + Pack<T>::kSize - 1) / Pack<T>::kSize;
  const dim3 threads = row_threads(num_packs);
  const std::int64_t across = (num_packs + threads.x - 1) / threads.x;
  const std::int64_t down = (num_rows + threads.y - 1) / threads.y;
  const dim3 grid(static_cast<unsigned>(across),
                  static_cast<unsigned>(std::min<std::int64_t>(down, 1 << 12)));
  t.aligned = t.aligned && num_columns % Pack<T>::kSize == 0;
  launch_kernel(normalise_rows<T, kRowStatistics>, grid, threads, stream, t, coefficients, num_rows,
                num_columns);
}

}  // namespace gradrecomp::kernels::cuda
