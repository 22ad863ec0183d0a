#pragma once

#include <span>
#include <vector>

#include "chain.h"

namespace gradrecomp::plan {

/// Consecutive blocks of a chain as one block, whose ends are kept.
struct BlockGroup {
  Menu menu;                       ///< what the group can do
  std::vector<ChainPoint> points;  ///< how, by `Option::replays`
};

/// What blocks can do at a cost of at most `size.max_cost`.
BlockGroup make_group(std::span<const Menu* const> menus, const ChainSize& size);

}  // namespace gradrecomp::plan
