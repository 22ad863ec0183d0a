#pragma once

#include <array>
#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::kernels {

/// How "x normalised" is computed: the same number on paper, but another last bit.
///
/// LibTorch computes it differently per operator, device, dtype and instruction set. So a caller
/// who wants equal bits tries these in turn and keeps the one that gives them. "fused" rounds a
/// product and the sum after it once, "separate" twice. With i = invstd, g = gamma, b = beta:
enum class Rounding : std::uint8_t {
  affine_fused,  ///< x * (i * g) + (b - mean * (i * g))
  affine_separate,
  centred_fused,  ///< ((x - mean) * i) * g + b
  centred_separate,
  weighted_fused,  ///< ((x - mean) * g) * i + b
  weighted_separate,
  centred_affine_fused,  ///< (x - mean) * (i * g) + b
  centred_affine_separate,
  shifted_fused,  ///< (x * i - mean * i) * g + b
  shifted_separate,
};

/// All of them, in the order in which they are most likely to fit.
inline constexpr std::array kRoundings{
    Rounding::affine_fused,           Rounding::centred_fused,     Rounding::weighted_fused,
    Rounding::centred_affine_fused,   Rounding::shifted_fused,     Rounding::affine_separate,
    Rounding::centred_separate,       Rounding::weighted_separate, Rounding::shifted_separate,
    Rounding::centred_affine_separate};

}  // namespace gradrecomp::kernels
