#pragma once

#include <vector>

#include "menu.h"

namespace gradrecomp::plan {

/// Leaves `num_options` of many options, those that the others replace worst.
std::vector<Option> thinned_options(std::vector<Option> options, int num_options);

}  // namespace gradrecomp::plan
