#pragma once

#include <span>

#include "gradrecomp/export.h"
#include "gradrecomp/kernels/dtype.h"

namespace gradrecomp::kernels {

/// One step of a chain. Each equals LibTorch's operator of the same name to the bit.
enum class StepKind : std::uint8_t {
  relu,
  add,         ///< + operand, of the chain's dtype
  mul,         ///< * operand, of the chain's dtype
  add_scalar,  ///< + scalar
  mul_scalar,  ///< * scalar
  div_scalar,  ///< / scalar; on devices LibTorch may multiply by the inverse instead
  mask,        ///< * operand, bytes 0 or 1: a bool tensor, as dropout makes it
};

struct Step {
  StepKind kind = StepKind::relu;
  const void* operand = nullptr;  ///< [num_elements]; null for relu and scalars
  /// Used as it is. LibTorch rounds the scalars of some operators to the tensor's dtype first (on
  /// the CPU those of add, add_ and mul_, but not of mul): pass `rounded` ones for those.
  float scalar = 0;
};

/// `value` rounded to what `dtype` can hold.
GRADRECOMP_API float rounded(float value, Dtype dtype);

inline constexpr std::size_t kMaxSteps = 8;

/// y = steps applied one after the other to x, in one pass over memory.
///
/// After each step the value is rounded to `dtype`, as separate operators would. Only the sign
/// and the payload of a NaN are unspecified.
/// Shapes:     x, y and every operand [num_elements], dense and in the same order.
/// Memory:     y may be x, but must not overlap anything else.
struct PointwiseChain {
  std::int64_t num_elements = 0;
  Dtype dtype = Dtype::float32;
  const void* x = nullptr;
  void* y = nullptr;
  std::span<const Step> steps;  ///< at most kMaxSteps; read before the call returns
};

}  // namespace gradrecomp::kernels
