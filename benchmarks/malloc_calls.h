#pragma once

#include <cstdint>

namespace gradrecomp::benchmarks {

/// Calls of malloc() so far, in this process and in all its libraries. Memory of tensors comes by
/// posix_memalign() and is not among them.
std::int64_t num_malloc_calls();

}  // namespace gradrecomp::benchmarks
