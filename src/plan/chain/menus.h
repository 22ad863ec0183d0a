#pragma once

#include <vector>

#include "menu.h"

namespace gradrecomp::plan {

/// The menus of all blocks; equal blocks share one.
///
/// Measured seconds of equal ops in equal blocks are averaged, in `blocks` too.
class Menus {
 public:
  Menus(std::vector<BlockGraph>& blocks, const ReplayCost& replay_cost, const MenuSize& size);

  /// Per block.
  [[nodiscard]] const std::vector<const Menu*>& of_blocks() const { return of_blocks_; }
  [[nodiscard]] std::size_t num_distinct() const { return menus_.size(); }

 private:
  std::vector<Menu> menus_;
  std::vector<const Menu*> of_blocks_;
};

}  // namespace gradrecomp::plan
