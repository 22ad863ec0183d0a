#pragma once

#include <vector>

#include "option.h"

namespace gradrecomp::plan {

/// Whether `a` is so in all that counts.
bool as_good(const Option& a, const Option& b);

/// Leaves out each option that another is as good as.
void keep_best(std::vector<Option>& options);

/// Leaves `num_options` of many options, those that the others replace worst.
std::vector<Option> thinned_options(std::vector<Option> options, int num_options);

}  // namespace gradrecomp::plan
