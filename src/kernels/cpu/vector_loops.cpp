// Compiled for every processor the library runs on.
#include "kernels/cpu/vector_loops.h"

#include "kernels/cpu/vector_loops_of_one_set.h"

#ifdef GRADRECOMP_AVX2
#include <cpuid.h>
#endif

namespace gradrecomp::kernels {

#ifdef GRADRECOMP_AVX2
extern const VectorLoops kAvx2Loops;

namespace {

// Clang's __builtin_cpu_supports does not know f16c.
bool supports_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace
#endif

const VectorLoops& portable_loops() { return kLoops; }

const VectorLoops& vector_loops() {
#ifdef GRADRECOMP_AVX2
  static const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && supports_f16c();
  if (avx2) return kAvx2Loops;
#endif
  return kLoops;
}

}  // namespace gradrecomp::kernels
