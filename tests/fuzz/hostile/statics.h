#pragma once

#include "fuzz/program/program.h"

namespace gradrecomp::fuzzing {

/// Runs `program` in a region that lives as long as the process, and leaves its outputs, and so
/// its graph, to the end of the process. Of many programs only those of the last are left.
void leave_to_the_end(const Program& program);

}  // namespace gradrecomp::fuzzing
