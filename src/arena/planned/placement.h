#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "arena/planned/lifetimes.h"

namespace gradrecomp::arena {

/// Where each block of a step lies: none for blocks that outlive it.
struct Placement {
  std::vector<std::optional<std::size_t>> offsets;  ///< in the order of the lifetimes
  std::size_t bytes = 0;                            ///< the end of the furthest block
};

/// The most bytes alive at once, of blocks that end: no placement takes less. Each block counts
/// rounded up to the arena's alignment.
std::size_t least_bytes(const Lifetimes& lifetimes);

/// Places blocks so that no two that are alive at once overlap, in about as few bytes as can be.
///
/// Blocks settle on a skyline over time: whatever fits between the neighbours of its lowest stretch
/// goes there, the biggest first, or what lives longest. What then reaches too high goes before all
/// others in the next attempt. The best of a fixed number of attempts is taken.
///
/// Source:     Sekiyama, Imamichi, Imai, Raymond, Profile-guided memory optimization for deep
///             neural networks, 2018 (its best-fit heuristic, after Burke, Kendall and Whitwell,
///             2004).
/// Complexity: quadratic in the number of blocks at worst; 2 ms an attempt for the 2,000 blocks
///             of a step of ResNet-152.
Placement place(const Lifetimes& lifetimes);

}  // namespace gradrecomp::arena
