#pragma once

#include "gradrecomp/kernels/rounding.h"
#include "gradrecomp/version.h"

// Both C++ and CUDA compile this, without contracting products and sums on their own account:
// -ffp-contract=off and -fmad=false.
#ifdef __CUDACC__
#define GRADRECOMP_INLINE __host__ __device__ __forceinline__
#define GRADRECOMP_FMA ::fmaf
#else
#define GRADRECOMP_INLINE inline __attribute__((always_inline))
#define GRADRECOMP_FMA __builtin_fmaf
#endif

namespace gradrecomp::kernels {

/// a * b + c, rounded once or twice.
template <bool kFused>
GRADRECOMP_INLINE float multiply_add(float a, float b, float c) {
  return kFused ? GRADRECOMP_FMA(a, b, c) : a * b + c;
}

/// The enumerators alternate, beginning with a fused one.
template <Rounding kRounding>
inline constexpr bool kIsFused = static_cast<int>(kRounding) % 2 == 0;
static_assert(kIsFused<Rounding::affine_fused> && kIsFused<Rounding::shifted_fused> &&
              !kIsFused<Rounding::affine_separate> && !kIsFused<Rounding::shifted_separate>);

/// x normalised, scaled by g and moved by b, rounded as kRounding says.
template <Rounding kRounding>
GRADRECOMP_INLINE float normalise(float x, float mean, float invstd, float g, float b) {
  constexpr bool kFused = kIsFused<kRounding>;
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
