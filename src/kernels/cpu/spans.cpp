// Compiled for every processor the library runs on.
#include "kernels/cpu/spans.h"

#include "kernels/cpu/spans_loops.h"

#ifdef GRADRECOMP_AVX2
#include <cpuid.h>
#endif

namespace gradrecomp::kernels {

#ifdef GRADRECOMP_AVX2
extern const Spans kAvx2Spans;

namespace {

// Clang's __builtin_cpu_supports does not know f16c.
bool supports_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace
#endif

const Spans& portable_spans() { return kSpans; }

const Spans& spans() {
#ifdef GRADRECOMP_AVX2
  static const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && supports_f16c();
  if (avx2) return kAvx2Spans;
#endif
  return kSpans;
}

}  // namespace gradrecomp::kernels
