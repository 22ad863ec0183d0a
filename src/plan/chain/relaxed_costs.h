#pragma once

#include <span>
#include <vector>

#include "plan/blocks/menu.h"

namespace gradrecomp::plan {

/// Per block, what it spends of `budget` when all blocks together retain the least bytes, if peaks
/// and neighbours are ignored and options may be taken in parts.
std::vector<double> relaxed_costs(std::span<const Menu* const> menus, double budget);

}  // namespace gradrecomp::plan
