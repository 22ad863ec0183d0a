#pragma once

#include <optional>
#include <string>

#include "fuzz/check/check.h"
#include "fuzz/check/outcome.h"
#include "gradrecomp/region.h"

namespace gradrecomp::fuzzing {

/// What is wrong with the peak that `region` predicted of its last step, which left `actual`. None
/// where it is right, or where nothing could predict it.
std::optional<Finding> unlike_predicted(const std::string& name, const Outcome& plain,
                                        const Region& region, const Outcome& actual);

}  // namespace gradrecomp::fuzzing
