#pragma once

#include <cstdint>
#include <cstring>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "gradrecomp/version.h"
#include "kernels/arithmetic/normalise.h"

// Conversions between float32 and 16-bit storage, rounding to nearest even. Without branches, so
// that loops over them can be vectorised.
namespace gradrecomp::kernels {

GRADRECOMP_INLINE std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

GRADRECOMP_INLINE float float_of(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

GRADRECOMP_INLINE float from_bfloat16(std::uint16_t stored) {
  return float_of(static_cast<std::uint32_t>(stored) << 16);
}

GRADRECOMP_INLINE std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(value == value ? rounded : 0x7FC0U);
}

/// The same, but a finite number stays finite: beyond bfloat16's largest it becomes that.
GRADRECOMP_INLINE std::uint16_t to_finite_bfloat16(float value) {
  const std::uint32_t rounded = to_bfloat16(value);
  const bool is_infinite = (bits_of(value) & 0x7FFFFFFFU) == 0x7F800000U;
  const bool overflows = (rounded & 0x7FFFU) == 0x7F80U && !is_infinite;
  return static_cast<std::uint16_t>(rounded - (overflows ? 1U : 0U));
}

// A product by 2^112 moves the exponent from where float16 has it to where float32 has it,
// subnormals included; infinities and NaNs get the exponent they lack.
GRADRECOMP_INLINE float from_float16(std::uint16_t stored) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(stored & 0x7FFFU) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(stored & 0x8000U) << 16;
  const float scaled = float_of(magnitude) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x0F800000U ? 0x7F800000U : 0U;
  return float_of(bits_of(scaled) | special | sign);
}

// Normal results round in integers. Below them, adding 0.5 leaves exactly the bits of a float16
// subnormal in the low mantissa, rounded by the addition.
GRADRECOMP_INLINE std::uint16_t to_float16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0x0FFFU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - 0x3F000000U;
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
  result = magnitude >= 0x47800000U ? 0x7C00U : result;
  const std::uint32_t quiet_nan = 0x7E00U | ((magnitude >> 13) & 0x3FFU);  // as F16C has it
  result = magnitude > 0x7F800000U ? quiet_nan : result;
  return static_cast<std::uint16_t>(result | sign);
}

}  // namespace gradrecomp::kernels
