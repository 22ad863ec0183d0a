#pragma once

#include <string_view>

namespace gradrecomp::program {

/// Has the C library keep what is freed instead of returning it to the system, as a training loop's
/// allocator does. Else the arm with the lower peak saves page faults, and its plan looks cheaper.
void retain_freed_memory();

/// What retain_freed_memory() did, for reports.
std::string_view memory_retention();

}  // namespace gradrecomp::program
