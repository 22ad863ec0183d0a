#pragma once

#include <span>
#include <vector>

#include "chain.h"

namespace gradrecomp::plan {

/// The front of a long chain, put together from groups of its blocks; see Note [ Groups of blocks ]
/// in grouped_chain.cpp.
std::vector<ChainPoint> solve_in_groups(std::span<const Menu* const> menus, const ChainSize& size);

}  // namespace gradrecomp::plan
