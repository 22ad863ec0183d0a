// Compiled for every processor the library runs on.
#include "spans.h"

#include "spans_loops.h"

namespace gradrecomp::kernels {

#ifdef GRADRECOMP_AVX2
extern const Spans kAvx2Spans;
#endif

const Spans& portable_spans() { return kSpans; }

const Spans& spans() {
#ifdef GRADRECOMP_AVX2
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                           __builtin_cpu_supports("f16c");
  if (avx2) return kAvx2Spans;
#endif
  return kSpans;
}

}  // namespace gradrecomp::kernels
