#pragma once

#include "gradrecomp/kernels/rounding.h"

// Both C++ and CUDA compile this, without contracting products and sums on their own account:
// -ffp-contract=off and -fmad=false.
#ifdef __CUDACC__
#define GRADRECOMP_INLINE __host__ __device__ __forceinline__
#else
#define GRADRECOMP_INLINE inline __attribute__((always_inline))
#endif

namespace gradrecomp::kernels {

/// a * b + c, rounded once or twice.
template <bool kFused>
GRADRECOMP_INLINE float multiply_add(float a, float b, float c) {
  return kFused ? __builtin_fmaf(a, b, c) : a * b + c;
}

constexpr bool is_fused(Rounding rounding) { return static_cast<int>(rounding) % 2 == 0; }
static_assert(is_fused(Rounding::affine_fused) && is_fused(Rounding::shifted_fused) &&
              !is_fused(Rounding::affine_separate) && !is_fused(Rounding::shifted_separate));

/// x normalised, scaled by g and moved by b, rounded as kRounding says.
template <Rounding kRounding>
GRADRECOMP_INLINE float normalise(float x, float mean, float invstd, float g, float b) {
  constexpr bool kFused = is_fused(kRounding);
  switch (kRounding) {
    case Rounding::affine_fused:
    case Rounding::affine_separate:
      return multiply_add<kFused>(x, invstd * g, multiply_add<kFused>(-mean, invstd * g, b));
    case Rounding::centred_fused:
    case Rounding::centred_separate:
      return multiply_add<kFused>((x - mean) * invstd, g, b);
    case Rounding::weighted_fused:
    case Rounding::weighted_separate:
      return multiply_add<kFused>((x - mean) * g, invstd, b);
    case Rounding::centred_affine_fused:
    case Rounding::centred_affine_separate:
      return multiply_add<kFused>(x - mean, invstd * g, b);
    case Rounding::shifted_fused:
    case Rounding::shifted_separate:
      return multiply_add<kFused>(multiply_add<kFused>(x, invstd, -(mean * invstd)), g, b);
  }
  return x;
}

}  // namespace gradrecomp::kernels
