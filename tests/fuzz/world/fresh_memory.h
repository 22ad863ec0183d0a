#pragma once

#include <cstdint>

namespace gradrecomp::fuzzing {

/// Fills every CPU block that tensors get from now on with `byte`, before they see it.
///
/// It installs the counting allocator and puts itself around it: blocks come from where the library
/// takes them.
void fill_fresh_memory(std::uint8_t byte);

}  // namespace gradrecomp::fuzzing
