#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fuzz/check/outcome.h"

namespace gradrecomp::fuzzing {

/// What plain training gives, to which wrapped runs are compared, and whether it always does.
class PlainRuns {
 public:
  Outcome expect(const std::function<Outcome()>& run_plain);

  /// Whether one of them differs from itself when it runs again. Where work is done at random
  /// moments, gradients of several passes at once may be added in any order, also in plain
  /// training.
  [[nodiscard]] bool differ() const;
  /// Whether one of them gives something else as fresh memory, which holds one byte or the other,
  /// holds something else.
  [[nodiscard]] bool read_unwritten(std::uint8_t byte, std::uint8_t other) const;

 private:
  std::vector<std::function<Outcome()>> runs_;
};

}  // namespace gradrecomp::fuzzing
