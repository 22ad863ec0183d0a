#pragma once

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

// Note [ Algorithms that change for want of memory ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Where a workspace does not fit, cuDNN silently goes on to another algorithm, with other bits, and
// each thread remembers what it went on to. So a convolution during which the allocator had nothing
// to give is kept, or is an error where it was a replay; and from then on convolutions belong to op
// sequences of another signature, which are profiled and verified anew.

/// Watches one call of an operator that may choose another algorithm for want of memory.
class AlgorithmWatch {
 public:
  AlgorithmWatch();
  /// Whether this thread's allocations have failed since. If so, algorithms are others from now on.
  [[nodiscard]] bool has_changed();

 private:
  std::int64_t num_shortages_;
};

/// How often algorithms have become others.
std::int64_t num_algorithm_changes() noexcept;

}  // namespace gradrecomp::tape
