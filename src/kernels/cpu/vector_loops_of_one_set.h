// The loops of VectorLoops, for the instruction set of the file that includes this. Everything is
// in an unnamed namespace and nothing of the standard library is instantiated, so that no code for
// a newer processor can be merged into code that older ones run.
#pragma once

#include "gradrecomp/version.h"
#include "kernels/arithmetic/half.h"
#include "kernels/cpu/vector_loops.h"

#ifdef __clang__
#define GRADRECOMP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define GRADRECOMP_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace gradrecomp::kernels {
namespace {

template <Rounding kRounding, bool kStatistics, bool kWeights>
void normalise_loop(const Normalisation& by, const float* x, float* y, std::int64_t n) {
  const float *mean = by.mean, *invstd = by.invstd, *gamma = by.gamma, *beta = by.beta;
  const float mean0 = *mean, invstd0 = *invstd, gamma0 = *gamma, beta0 = *beta;
  GRADRECOMP_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] =
        normalise<kRounding>(x[i], kStatistics ? mean[i] : mean0, kStatistics ? invstd[i] : invstd0,
                             kWeights ? gamma[i] : gamma0, kWeights ? beta[i] : beta0);
  }
}

template <Rounding kRounding>
void normalise_as(const Normalisation& by, const float* x, float* y, std::int64_t n) {
  switch (by.coefficients) {
    case Coefficients::per_span:
      return normalise_loop<kRounding, false, false>(by, x, y, n);
    case Coefficients::per_element:
      return normalise_loop<kRounding, true, true>(by, x, y, n);
    case Coefficients::weights_per_element:
      return normalise_loop<kRounding, false, true>(by, x, y, n);
  }
}

void normalise_span(const Normalisation& by, const float* x, float* y, std::int64_t n) {
  using enum Rounding;
  switch (by.rounding) {
    case affine_fused:
      return normalise_as<affine_fused>(by, x, y, n);
    case affine_separate:
      return normalise_as<affine_separate>(by, x, y, n);
    case centred_fused:
      return normalise_as<centred_fused>(by, x, y, n);
    case centred_separate:
      return normalise_as<centred_separate>(by, x, y, n);
    case weighted_fused:
      return normalise_as<weighted_fused>(by, x, y, n);
    case weighted_separate:
      return normalise_as<weighted_separate>(by, x, y, n);
    case centred_affine_fused:
      return normalise_as<centred_affine_fused>(by, x, y, n);
    case centred_affine_separate:
      return normalise_as<centred_affine_separate>(by, x, y, n);
    case shifted_fused:
      return normalise_as<shifted_fused>(by, x, y, n);
    case shifted_separate:
      return normalise_as<shifted_separate>(by, x, y, n);
  }
}

// -0 and NaN stay what they are, as in LibTorch.
void relu_span(float* v, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) v[i] = v[i] < 0.0F ? 0.0F : v[i];
}

void add_span(const float* x, const float* operand, float* v, std::int64_t n) {
  GRADRECOMP_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) v[i] = x[i] + operand[i];
}

void mul_span(const float* x, const float* operand, float* v, std::int64_t n) {
  GRADRECOMP_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) v[i] = x[i] * operand[i];
}

void add_scalar_span(float* v, float scalar, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) v[i] += scalar;
}

void mul_scalar_span(float* v, float scalar, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) v[i] *= scalar;
}

void div_scalar_span(float* v, float scalar, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) v[i] /= scalar;
}

void mask_span(float* v, const std::uint8_t* mask, std::int64_t n) {
  GRADRECOMP_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) v[i] *= mask[i] != 0 ? 1.0F : 0.0F;
}

void load_span(Dtype dtype, const std::uint16_t* x, float* v, std::int64_t n) {
  std::int64_t i = 0;
  if (dtype == Dtype::bfloat16) {
    for (; i < n; ++i) v[i] = from_bfloat16(x[i]);
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const auto stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    _mm256_storeu_ps(v + i, _mm256_cvtph_ps(stored));
  }
#endif
  for (; i < n; ++i) v[i] = from_float16(x[i]);
}

void store_span(Dtype dtype, const float* v, std::uint16_t* y, std::int64_t n) {
  std::int64_t i = 0;
  if (dtype == Dtype::bfloat16) {
    for (; i < n; ++i) y[i] = to_bfloat16(v[i]);
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const auto stored = _mm256_cvtps_ph(_mm256_loadu_ps(v + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), stored);
  }
#endif
  for (; i < n; ++i) y[i] = to_float16(v[i]);
}

void round_span(Dtype dtype, float* v, std::int64_t n) {
  constexpr std::int64_t kPiece = 64;
  std::uint16_t stored[kPiece];
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t length = n - i < kPiece ? n - i : kPiece;
    store_span(dtype, v + i, stored, length);
    load_span(dtype, stored, v + i, length);
  }
}

constexpr VectorLoops kLoops{&normalise_span,  &relu_span,       &add_span,        &mul_span,
                             &add_scalar_span, &mul_scalar_span, &div_scalar_span, &mask_span,
                             &load_span,       &store_span,      &round_span};

}  // namespace
}  // namespace gradrecomp::kernels
