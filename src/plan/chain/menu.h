#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
  Index replays = -1;   ///< which of the menu's lists says what it replays
};

/// The ops that an option replays, each as often as it does.
struct ReplayList {
  std::vector<Index> ops;
  std::size_t num_passing = 0;  ///< of these, those of a replay that runs through the block: first
};

/// What is kept of the values that cross a cut: bit i for the i-th. Where more cross than have a
/// bit, all are kept or none.
enum class CutFate : std::uint8_t { dropped = 0, first_kept = 1, second_kept = 2, kept = 3 };
inline constexpr std::array kCutFates{CutFate::dropped, CutFate::first_kept, CutFate::second_kept,
                                      CutFate::kept};

/// One for each fate of a cut, at its position.
template <typename T>
using PerFate = std::array<T, kCutFates.size()>;
constexpr std::size_t position(CutFate fate) { return static_cast<std::size_t>(fate); }

/// The fates of a cut that so many values cross which may be dropped.
std::span<const CutFate> fates_of(std::size_t num_crossing);

/// The Pareto options of one block, for each fate of its two cuts.
struct Menu {
  PerFate<PerFate<std::vector<Option>>> options;
  std::vector<ReplayList> replays;

  [[nodiscard]] std::vector<Option>& of(CutFate out, CutFate in) {
    return options[position(out)][position(in)];
  }
  [[nodiscard]] const std::vector<Option>& of(CutFate out, CutFate in) const {
    return options[position(out)][position(in)];
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

/// The menu of `block`, made from that of one which differs from it in seconds alone.
Menu recosted(Menu menu, const Graph& other, const Graph& block, const ReplayCost& replay_cost);

/// The kept set of `option` over the values of the block's graph.
KeptSet kept_in_block(const BlockGraph& block, std::uint64_t kept, CutFate out, CutFate in);

}  // namespace gradrecomp::plan
