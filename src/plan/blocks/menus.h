#pragma once

#include <deque>
#include <vector>

#include "menu.h"

namespace gradrecomp::plan {

/// The menus of all blocks. Blocks that are equal but for measured seconds have the same options,
/// found for the mean of those seconds, each block with costs of its own.
class Menus {
 public:
  Menus(const std::vector<BlockGraph>& blocks, const ReplayCost& replay_cost, const MenuSize& size);

  /// Per block.
  [[nodiscard]] const std::vector<const Menu*>& of_blocks() const { return of_blocks_; }

 private:
  std::deque<Menu> menus_;
  std::vector<const Menu*> of_blocks_;
};

}  // namespace gradrecomp::plan
