#pragma once

#include <cstdint>

#include "gradrecomp/kernels/dtype.h"
#include "gradrecomp/kernels/rounding.h"
#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// Which of a span's coefficients are one number for all elements, and which one per element.
enum class Coefficients : std::uint8_t {
  per_span,            ///< mean, invstd, gamma, beta: a channel of an image
  per_element,         ///< all four: the channels of a pixel
  weights_per_element  ///< only gamma and beta: a row of a layer norm
};

struct Normalisation {
  Rounding rounding = Rounding::affine_fused;
  Coefficients coefficients = Coefficients::per_span;
  const float* mean = nullptr;
  const float* invstd = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
};

/// Loops over short spans of float32, compiled once for each instruction set: every loop is
/// simple enough for the compiler to vectorise, and a span stays in the nearest cache between
/// them. Outputs may be inputs, but must not overlap them otherwise.
struct VectorLoops {
  void (*normalise)(const Normalisation&, const float* x, float* y, std::int64_t n);
  void (*relu)(float* v, std::int64_t n);
  void (*add)(const float* x, const float* operand, float* v, std::int64_t n);
  void (*mul)(const float* x, const float* operand, float* v, std::int64_t n);
  void (*add_scalar)(float* v, float scalar, std::int64_t n);
  void (*mul_scalar)(float* v, float scalar, std::int64_t n);
  void (*div_scalar)(float* v, float scalar, std::int64_t n);
  void (*mask)(float* v, const std::uint8_t* mask, std::int64_t n);
  /// From and to 16-bit storage.
  void (*load)(Dtype dtype, const std::uint16_t* x, float* v, std::int64_t n);
  void (*store)(Dtype dtype, const float* v, std::uint16_t* y, std::int64_t n);
  /// What a store and a load would make of them.
  void (*round)(Dtype dtype, float* v, std::int64_t n);
};

/// The fastest that this processor can run.
const VectorLoops& vector_loops();

/// Those that every processor can run, with the same results.
const VectorLoops& portable_loops();

}  // namespace gradrecomp::kernels
