#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "chain.h"

namespace gradrecomp::plan {

/// Above any sum of peaks.
inline constexpr std::int64_t kNoPeak = std::numeric_limits<std::int64_t>::max() / 4;

/// A plan for the blocks from some cut on, with up to `kReaches` replays that run across the cut;
/// see Note [ Chains ] in chain.cpp. Peaks are above what the blocks before the cut retain.
template <std::size_t kReaches>
struct PartialPlan {
  std::int64_t rest_bytes = kNoPeak;
  double cost = 0;
  Index step = -1;      ///< how it came about, for its maker
  int num_reaches = 0;  ///< replays that run across the cut
  /// Per such replay, first to last: the peak since then. The last is that of the next block.
  std::array<std::int64_t, kReaches> since_bytes{};

  [[nodiscard]] std::int64_t run_bytes() const { return since_bytes.front(); }
};

/// Beyond as many replays as are looked at, what runs across the cut is not told apart.
template <std::size_t kReaches>
void add_reach(PartialPlan<kReaches>& made, int reaches, std::int64_t peak_bytes, int max_passes) {
  made.num_reaches = reaches;
  // The array's own bound is for compilers, which cannot know the other one.
  if (reaches > max_passes || static_cast<std::size_t>(reaches) >= kReaches) return;
  made.since_bytes[reaches] = peak_bytes;
  ++made.num_reaches;
}

/// The plan for one block more.
template <std::size_t kReaches>
PartialPlan<kReaches> joined(const PartialPlan<kReaches>& after, const BlockChoice& choice,
                             int max_passes) {
  const Option& o = *choice.option;
  const int passes = choice.num_passes;
  PartialPlan<kReaches> made{.rest_bytes = after.rest_bytes + o.retained_bytes,
                             .cost = after.cost + o.cost + passes * o.pass_cost};
  const bool was_open = choice.out != CutFate::kept;
  const bool stays_open = choice.in != CutFate::kept;
  const std::int64_t swept =
      was_open ? after.since_bytes[passes] + o.retained_bytes + o.swept_bytes : 0;
  if (was_open && stays_open && o.linked) {
    for (std::size_t i = 0; i < kReaches && i <= static_cast<std::size_t>(passes); ++i) {
      made.since_bytes[i] =
          std::max({after.since_bytes[i] + o.retained_bytes, swept, o.early_peak_bytes});
    }
    add_reach(made, passes + 1, o.tail_peak_bytes, max_passes);
    return made;
  }
  made.rest_bytes = std::max(made.rest_bytes, o.early_peak_bytes);
  if (was_open) {
    made.rest_bytes = std::max({made.rest_bytes, swept, after.run_bytes() + o.retained_bytes});
  }
  if (stays_open) {
    made.since_bytes.front() = o.late_peak_bytes;
    made.num_reaches = 1;
  }
  if (!stays_open) made.rest_bytes = std::max(made.rest_bytes, o.late_peak_bytes);
  return made;
}

}  // namespace gradrecomp::plan
