#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "block_graph.h"
#include "plan/simulator/replay_cost.h"

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
};

/// Whether what crosses a cut is kept.
enum class CutFate : std::uint8_t { dropped, kept };

/// The Pareto options of one block, for each fate of its two cuts.
struct Menu {
  std::array<std::array<std::vector<Option>, 2>, 2> options;

  [[nodiscard]] std::vector<Option>& of(CutFate out, CutFate in) {
    return options[static_cast<std::size_t>(out)][static_cast<std::size_t>(in)];
  }
  [[nodiscard]] const std::vector<Option>& of(CutFate out, CutFate in) const {
    return options[static_cast<std::size_t>(out)][static_cast<std::size_t>(in)];
  }
  /// The cost of the dearest option when as many replays run through it.
  [[nodiscard]] double dearest(int num_passes) const;
};

/// Bounds of the search for a menu.
struct MenuSize {
  int num_simulations = 1000;  ///< for each fate
  int num_options = 32;        ///< for each fate
  int num_just_in_time = 12;   ///< for each fate, beyond these
};

Menu make_menu(const BlockGraph& block, const ReplayCost& replay_cost, const MenuSize& size);

/// The kept set of `option` over the values of the block's graph.
KeptSet kept_in_block(const BlockGraph& block, std::uint64_t kept, CutFate out, CutFate in);

}  // namespace gradrecomp::plan
