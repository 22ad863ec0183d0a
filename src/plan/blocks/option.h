#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "block_graph.h"
#include "cut_fate.h"

namespace gradrecomp::plan {

/// More choices than this are left at what autograd does: kept.
inline constexpr std::size_t kMaxChoices = 64;

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
  /// What the block makes again is left behind when backward demands it, not before: fewer bytes
  /// for more replays.
  bool just_in_time = false;
  bool linked = false;  ///< the replay that a later block starts runs through to earlier ones
  Index replays = -1;   ///< which of the menu's lists says what it replays
};

/// The ops that an option replays, each as often as it does.
struct ReplayList {
  std::vector<Index> ops;
  std::size_t num_passing = 0;  ///< so many of the first belong to a replay that runs through
};

/// The kept set over the values of the block's graph, choice i kept where bit i is set.
KeptSet kept_in_block(const BlockGraph& block, std::uint64_t kept, CutFate out, CutFate in);

}  // namespace gradrecomp::plan
