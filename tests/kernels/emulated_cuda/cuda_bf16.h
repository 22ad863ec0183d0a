#pragma once

#include <c10/util/BFloat16.h>

struct __nv_bfloat16 {
  c10::BFloat16 stored;
};

inline float __bfloat162float(__nv_bfloat16 v) { return v.stored; }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return {c10::BFloat16(v)}; }
