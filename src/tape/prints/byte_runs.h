#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>

#include "gradrecomp/version.h"
#include "tape/geometry/geometry.h"

namespace gradrecomp::tape {

/// The bytes of a storage that a tensor shows, as runs of one length: a token of each sequence of a
/// batch, or one column of a matrix. Gaps below a given size count as shown.
class ByteRuns {
 public:
  ByteRuns(const Geometry& geometry, std::int64_t smallest_gap);

  [[nodiscard]] std::int64_t count() const { return num_runs_; }
  /// Bytes of one.
  [[nodiscard]] std::int64_t length() const { return run_bytes_; }

  /// Calls `visit(Extent)` for one run after the other until it returns false; tells whether it
  /// never did.
  template <typename Visit>
  bool all_of(Visit&& visit) const {
    for (std::int64_t run = 0; run < num_runs_; ++run) {
      const std::int64_t begin = begin_of(run);
      if (!visit(Extent{begin, begin + run_bytes_})) return false;
    }
    return true;
  }

 private:
  /// A dimension over runs.
  struct Dimension {
    std::int64_t size = 1;
    std::int64_t pitch = 0;  ///< in bytes
  };
  [[nodiscard]] std::int64_t begin_of(std::int64_t run) const;

  std::int64_t begin_ = 0;
  std::int64_t run_bytes_ = 0;
  std::int64_t num_runs_ = 0;
  c10::SmallVector<Dimension, 4> dimensions_;  // those of small pitch first
};

}  // namespace gradrecomp::tape
