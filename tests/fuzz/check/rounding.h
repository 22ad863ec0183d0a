#pragma once

#include <vector>

#include "fuzz/check/check.h"
#include "fuzz/check/outcome.h"
#include "fuzz/program/program.h"

namespace gradrecomp::fuzzing {

/// Runs `program` in a region that may round what it keeps (Forms::lossy_bf16), and says where more
/// than the numbers in gradients differs from `plain`, or a step from the one before it.
std::vector<Finding> rounded_unlike_plain(const Program& program, const Outcome& plain,
                                          Verify verify);

}  // namespace gradrecomp::fuzzing
