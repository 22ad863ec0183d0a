#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "block_graph.h"
#include "cut_fate.h"

namespace gradrecomp::plan {

/// More choices than this are left at what autograd does: kept.
inline constexpr std::size_t kMaxChoices = 64;

/// More reaches of a block into earlier ones than this are not followed.
inline constexpr std::size_t kMostReaches = 4;

/// When replays leave a block's dropped values behind.
struct Timing {
  bool just_in_time = false;  ///< when backward demands each, not before: fewer bytes, more replays
  std::uint64_t at_once = 0;  ///< but these choices, a bit for each
  bool operator==(const Timing&) const = default;
};

/// One way to run a block. Bytes are above what the blocks before it retain.
struct Option {
  std::uint64_t kept = 0;           ///< bit i: the block's i-th choice is kept
  std::int64_t retained_bytes = 0;  ///< from its forward to its backward
  std::int64_t swept_bytes = 0;  ///< made again when a later block's replay reaches across this one
  std::int64_t early_peak_bytes = 0;  ///< before a replay of its own reaches into earlier blocks
  std::int64_t late_peak_bytes = 0;   ///< from then on; 0 if none does
  std::int64_t tail_peak_bytes = 0;   ///< from the block's own reach into earlier blocks on, if
                                      ///< they are deferred and no other replay did that for it
  double cost = 0;
  double pass_cost = 0;  ///< of a replay that runs through the block and leaves nothing behind
  // Where the boundary is relayed, see Note [ Relays ] in option_meter.cpp:
  double relay_cost = 0;           ///< of a replay that runs through, but the first and the last
  std::int64_t relayed_bytes = 0;  ///< made by the last, beyond what the first has swept
  bool relays_on = false;  ///< all of them run through to earlier blocks, not only the first
  // Where the inputs are relayed, the block's own reaches into earlier blocks, in their order:
  std::size_t num_reaches = 0;
  std::array<std::int64_t, kMostReaches> since_bytes{};  ///< the peak from each on
  std::array<Index, kMostReaches> reached_for{};         ///< the value whose demand sets it off
  Timing timing = {};
  bool linked = false;  ///< the replay that a later block starts runs through to earlier ones
  Index replays = -1;   ///< which of the menu's lists says what it replays
};

/// The ops that an option replays, each as often as it does.
struct ReplayList {
  std::vector<Index> ops;
  std::size_t num_passing = 0;  ///< so many of the first belong to a replay that runs through
  std::vector<Index> relayed;   ///< by a further one that does
};

/// The kept set over the values of the block's graph, choice i kept where bit i is set.
KeptSet kept_in_block(const BlockGraph& block, std::uint64_t kept, CutFate out, CutFate in);

}  // namespace gradrecomp::plan
