#include "fuzz/check/plain_runs.h"

#include <algorithm>

#include "fuzz/world/fresh_memory.h"

namespace gradrecomp::fuzzing {

Outcome PlainRuns::expect(const std::function<Outcome()>& run_plain) {
  runs_.push_back(run_plain);
  return run_plain();
}

bool PlainRuns::differ() const {
  constexpr int kTimes = 40;
  return std::ranges::any_of(runs_, [](const auto& run_plain) {
    const auto first = run_plain();
    for (int i = 1; i < kTimes; ++i) {
      if (!difference(first, run_plain()).empty()) return true;
    }
    return false;
  });
}

bool PlainRuns::read_unwritten(std::uint8_t byte, std::uint8_t other) const {
  return std::ranges::any_of(runs_, [&](const auto& run_plain) {
    fill_fresh_memory(byte);
    const auto outcome = run_plain();
    fill_fresh_memory(other);
    return !difference(outcome, run_plain()).empty();
  });
}

}  // namespace gradrecomp::fuzzing
