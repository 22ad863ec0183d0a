#pragma once

#include <cstdint>

namespace gradrecomp::fuzzing {

/// Fills every CPU block that tensors get from now on with `byte`, before they see it.
///
/// Call it once before anything else puts itself around LibTorch's allocator.
void fill_fresh_memory(std::uint8_t byte);

}  // namespace gradrecomp::fuzzing
