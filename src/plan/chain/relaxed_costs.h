#pragma once

#include <span>
#include <vector>

#include "plan/blocks/menu.h"

namespace gradrecomp::plan {

/// Per block, what it spends of `budget` where the least bytes are retained in all, whatever their
/// peaks and whatever its neighbours do, and options may be taken in parts.
std::vector<double> relaxed_costs(std::span<const Menu* const> menus, double budget);

}  // namespace gradrecomp::plan
