#include "malloc_calls.h"

#include <atomic>
#include <cstddef>

namespace {

std::atomic<std::int64_t> num_calls{0};

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t bytes);  // glibc's own

/// Takes the place of glibc's.
void* malloc(std::size_t bytes) {
  num_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}

}  // extern "C"

namespace gradrecomp::benchmarks {

std::int64_t num_malloc_calls() { return num_calls.load(std::memory_order_relaxed); }

}  // namespace gradrecomp::benchmarks
