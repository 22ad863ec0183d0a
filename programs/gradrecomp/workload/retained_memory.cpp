#include "workload/retained_memory.h"

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace gradrecomp::program {
namespace {
bool retained = false;
}

void retain_freed_memory() {
#ifdef __GLIBC__
  // The threshold alone ends at 32 MiB; blocks above it are kept off mmap by M_MMAP_MAX.
  constexpr int kHighestThreshold = 32 << 20;
  retained = mallopt(M_MMAP_THRESHOLD, kHighestThreshold) == 1 && mallopt(M_MMAP_MAX, 0) == 1 &&
             mallopt(M_TRIM_THRESHOLD, -1) == 1;
#endif
}

std::string_view memory_retention() {
  return retained ? "freed memory retained by malloc" : "freed memory returned as malloc likes";
}

}  // namespace gradrecomp::program
