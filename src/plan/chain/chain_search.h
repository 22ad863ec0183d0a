#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "chain.h"
#include "plan/blocks/block_graph.h"
#include "plan/blocks/menus.h"

namespace gradrecomp::plan {

/// How often a plan may replay an op.
enum class Replays : std::uint8_t { once, many };

/// The front of a graph taken for a chain of blocks: menus of the blocks, put together exactly.
class ChainSearch {
 public:
  ChainSearch(const Graph& graph, const ReplayCost& replay_cost,
              std::span<const Constraint> constraints, Replays replays);

  /// What the chain does, for every point of its front up to a cost.
  [[nodiscard]] std::vector<ChainPoint> front(const ChainSize& size) const;

  /// The same where boundaries may be relayed, too, see Note [ Relays ] in option_meter.cpp; empty
  /// where none can be.
  [[nodiscard]] std::vector<ChainPoint> front_with_relays(const ChainSize& size);

  /// The values that a point of the front keeps.
  [[nodiscard]] KeptSet kept(const ChainPoint& point) const;

  /// Per value: the event from which on replays leave it behind; empty if all always do.
  [[nodiscard]] std::vector<Index> cached_from(const ChainPoint& point) const;

  /// False if some block holds so much of the network that its menu cannot be complete, or ends
  /// where several values cross.
  [[nodiscard]] bool is_well_cut() const { return well_cut_; }

  [[nodiscard]] std::size_t num_blocks() const { return blocks_.blocks.size(); }

 private:
  [[nodiscard]] std::vector<ChainPoint> front(std::span<const Menu* const> menus,
                                              const ChainSize& size) const;
  void leave_behind(std::size_t b, const BlockChoice& choice, Index due,
                    std::vector<Index>& from) const;
  void run_across(std::size_t b, const BlockChoice& choice, std::vector<Index>& reaches) const;

  const Graph& graph_;
  const ReplayCost& replay_cost_;
  Blocks blocks_;
  std::vector<BlockGraph> block_graphs_;
  std::vector<Index> backward_begin_;  ///< per block: the first event of its backward
  std::vector<Index> first_demand_;    ///< per value
  MenuSize menu_size_;
  Menus menus_;
  std::optional<Menus> relay_menus_;
  bool well_cut_ = true;
};

}  // namespace gradrecomp::plan
