#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "menu.h"

namespace gradrecomp::plan {

/// What a chain does with one of its blocks.
struct BlockChoice {
  const Option* option = nullptr;
  Boundary out = Boundary::kept;
  Boundary in = Boundary::kept;
  /// The number of replays that run through the block before the one that leaves its values behind.
  /// The last to run through is that of the next block.
  int num_passes = 0;
};

/// A plan as a choice for every block, with its peak and cost as far as the menus know them.
struct ChainPoint {
  std::vector<BlockChoice> choices;
  std::int64_t peak_bytes = 0;
  double cost = 0;
};

/// How finely costs are told apart.
struct ChainSize {
  double max_cost = 1;
  int num_buckets = 500;
  int num_open_points = 6;  ///< kept in each bucket while a run of dropped boundaries is open
  /// Plans above this are not wanted, and of those within it only cheaper ones than others.
  std::int64_t max_peak_bytes = std::numeric_limits<std::int64_t>::max();
  int max_passes = 0;  ///< replays that may run through a block and leave nothing behind, up to 9
};

/// The front of a chain of blocks by rising cost; see Note [ Chains ] in chain.cpp.
std::vector<ChainPoint> solve_chain(std::span<const Menu* const> menus, const ChainSize& size);

}  // namespace gradrecomp::plan
