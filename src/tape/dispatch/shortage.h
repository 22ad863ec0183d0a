#pragma once

#include <cstdint>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

// Note [ Algorithms that change for lack of memory ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Where a workspace does not fit, cuDNN silently switches to another algorithm, with different
// bits, and each thread remembers which. So a convolution during which the allocator had nothing to
// give is kept, or is an error where it was a replay; and from then on convolutions belong to op
// sequences of another signature, which are profiled and verified anew.

/// Watches one call of an operator that may choose another algorithm for lack of memory.
class AlgorithmWatch {
 public:
  AlgorithmWatch();
  /// Whether this thread's allocations have failed since. If so, algorithms differ from now on.
  [[nodiscard]] bool has_changed();

 private:
  std::int64_t num_shortages_;
};

/// How often algorithms have changed so; part of what tells op sequences apart.
std::int64_t num_algorithm_changes() noexcept;

}  // namespace gradrecomp::tape
