#pragma once

#include <c10/util/Half.h>

// LibTorch's conversions, which are not those of our kernels for the CPU.
struct __half {
  c10::Half stored;
};

inline float __half2float(__half v) { return v.stored; }
inline __half __float2half_rn(float v) { return {c10::Half(v)}; }
