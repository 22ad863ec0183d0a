#pragma once

#include <vector>

#include "option.h"

namespace gradrecomp::plan {

/// Whether `a` is as good as `b` in every figure.
bool as_good(const Option& a, const Option& b);

/// Leaves out each option that another is as good as.
void keep_best(std::vector<Option>& options);

/// Reduces the options to `num_options`: those that others could least well replace. `keeps_least`:
/// among them the cheapest of those that retain least, linked and not.
std::vector<Option> thinned_options(std::vector<Option> options, int num_options,
                                    bool keeps_least = false);

}  // namespace gradrecomp::plan
