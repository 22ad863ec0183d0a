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
  /// Per such replay, first to last, the peak since then; of more than these only of the last one,
  /// which is that of the next block.
  std::array<std::int64_t, kReaches> since_bytes{};
  std::int64_t last_bytes = 0;

  [[nodiscard]] std::int64_t run_bytes() const { return since_bytes.front(); }
};

/// Adds one after `reaches` others. Beyond as many replays as are looked at, what runs across the
/// cut is counted, and not told apart.
template <std::size_t kReaches>
void add_reach(PartialPlan<kReaches>& made, int reaches, std::int64_t peak_bytes, int max_passes) {
  made.num_reaches = reaches + 1;
  made.last_bytes = peak_bytes;
  // The array's own bound is for compilers, which cannot know the other one.
  if (reaches > max_passes || static_cast<std::size_t>(reaches) >= kReaches) return;
  made.since_bytes[reaches] = peak_bytes;
}

/// Adds those of a block's own, after `reaches` that run through it. `alone_bytes`: the peak since
/// its own where it has but one.
template <std::size_t kReaches>
void add_own_reaches(PartialPlan<kReaches>& made, int reaches, std::int64_t alone_bytes,
                     const BlockChoice& choice, int max_passes) {
  if (choice.in != CutFate::relayed) return add_reach(made, reaches, alone_bytes, max_passes);
  for (std::size_t i = 0; i < choice.option->num_reaches; ++i) {
    add_reach(made, reaches++, choice.option->since_bytes[i], max_passes);
  }
}

/// Whether as many replays run across the cut as a choice for the block before it asks for.
template <std::size_t kReaches>
bool is_possible(const PartialPlan<kReaches>& after, const BlockChoice& choice, int max_passes) {
  if (choice.out == CutFate::relayed) return after.num_reaches >= 2;
  return choice.num_passes == 0 || choice.num_passes < std::min(after.num_reaches, max_passes + 1);
}

/// Of replays that run through the block, but for the one whose cost is the option's.
template <std::size_t kReaches>
double cost_of_further(const PartialPlan<kReaches>& after, const BlockChoice& choice) {
  const Option& o = *choice.option;
  if (choice.out == CutFate::relayed) return (after.num_reaches - 2) * o.relay_cost;
  return choice.num_passes * o.pass_cost;
}

/// The replays across the block's end that run through to earlier blocks.
template <std::size_t kReaches>
int num_through(const PartialPlan<kReaches>& after, const BlockChoice& choice) {
  if (choice.out != CutFate::relayed) return choice.num_passes + 1;
  return choice.option->relays_on ? after.num_reaches : 1;
}

/// The plan for one block more.
template <std::size_t kReaches>
PartialPlan<kReaches> joined(const PartialPlan<kReaches>& after, const BlockChoice& choice,
                             int max_passes) {
  const Option& o = *choice.option;
  const bool was_open = choice.out != CutFate::kept;
  const bool stays_open = choice.in != CutFate::kept;
  const bool relays = choice.out == CutFate::relayed;
  // From the first replay that runs through on, and from the one on that leaves all behind.
  const std::int64_t left = o.retained_bytes + (relays ? o.swept_bytes : 0);
  std::int64_t swept = 0;
  if (relays) swept = after.last_bytes + left + o.relayed_bytes;
  if (was_open && !relays) swept = after.since_bytes[choice.num_passes] + left + o.swept_bytes;

  PartialPlan<kReaches> made{.rest_bytes = after.rest_bytes + o.retained_bytes,
                             .cost = after.cost + o.cost + cost_of_further(after, choice)};
  if (was_open && stays_open && o.linked) {
    const int through = num_through(after, choice);
    for (std::size_t i = 0; i < kReaches && i < static_cast<std::size_t>(through); ++i) {
      made.since_bytes[i] = std::max({after.since_bytes[i] + left, swept, o.early_peak_bytes});
    }
    add_own_reaches(made, through, o.tail_peak_bytes, choice, max_passes);
    return made;
  }
  made.rest_bytes = std::max(made.rest_bytes, o.early_peak_bytes);
  if (was_open) made.rest_bytes = std::max({made.rest_bytes, swept, after.run_bytes() + left});
  if (stays_open) add_own_reaches(made, 0, o.late_peak_bytes, choice, max_passes);
  if (!stays_open) made.rest_bytes = std::max(made.rest_bytes, o.late_peak_bytes);
  return made;
}

}  // namespace gradrecomp::plan
