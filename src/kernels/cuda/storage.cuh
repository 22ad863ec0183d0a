#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "gradrecomp/kernels/dtype.h"
#include "gradrecomp/version.h"

namespace gradrecomp::kernels::cuda {

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__half v) { return __half2float(v); }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <class T>
__device__ T from_float(float v);
template <>
__device__ inline float from_float<float>(float v) {
  return v;
}
template <>
__device__ inline __half from_float<__half>(float v) {
  return __float2half_rn(v);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
  return __float2bfloat16_rn(v);
}

/// -0 becomes +0 and NaN stays, as in LibTorch on this device.
__device__ inline float relu(float v) { return isnan(v) ? v : fmaxf(v, 0.0F); }

/// What one thread loads and stores at a time: 16 bytes.
template <class T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

/// Up to a pack of elements from `first` on; whole packs of aligned tensors in one load.
template <class T>
__device__ Pack<T> load_pack(const T* x, std::int64_t first, std::int64_t size, bool aligned) {
  if (aligned && size >= Pack<T>::kSize) return *reinterpret_cast<const Pack<T>*>(x + first);
  Pack<T> pack{};
#pragma unroll
  for (int i = 0; i < Pack<T>::kSize; ++i) {
    if (i < size) pack.values[i] = x[first + i];
  }
  return pack;
}

template <class T>
__device__ void store_pack(const Pack<T>& pack, T* y, std::int64_t first, std::int64_t size,
                           bool aligned) {
  if (aligned && size >= Pack<T>::kSize) {
    *reinterpret_cast<Pack<T>*>(y + first) = pack;
    return;
  }
#pragma unroll
  for (int i = 0; i < Pack<T>::kSize; ++i) {
    if (i < size) y[first + i] = pack.values[i];
  }
}

/// Calls call(T()) with the type that stores `dtype`.
template <class Call>
void with_type(Dtype dtype, const Call& call) {
  switch (dtype) {
    case Dtype::float32:
      return call(float());
    case Dtype::float16:
      return call(__half());
    case Dtype::bfloat16:
      return call(__nv_bfloat16());
  }
}

/// The elements of one pack as float32, in registers.
template <class T>
struct Values {
  static constexpr int kSize = Pack<T>::kSize;
  float values[kSize];

  __device__ explicit Values(const Pack<T>& pack) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] = to_float(pack.values[i]);
  }

  /// values[i] = function(values[i], i), rounded to T as a store and a load would.
  template <class Function>
  __device__ void each(const Function& function) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] = to_float(from_float<T>(function(values[i], i)));
  }

  __device__ Pack<T> packed() const {
    Pack<T> pack;
#pragma unroll
    for (int i = 0; i < kSize; ++i) pack.values[i] = from_float<T>(values[i]);
    return pack;
  }
};

/// The same number, of which the compiler knows nothing. Where a loop would branch on an option,
/// it otherwise makes a copy of the loop for every combination of options, for minutes.
__device__ inline int opaque(int option) {
  asm volatile("" : "+r"(option));
  return option;
}

}  // namespace gradrecomp::kernels::cuda
