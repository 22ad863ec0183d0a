#pragma once

#include <cstdint>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// What a sealed tape adds to the heap, beside the memory of tensors: ops, their arguments, values,
/// what is known of their contents, and handles, less what autograd would hold of each tensor that
/// they stand for.
///
/// Source: sizes and capacities of what it consists of, rounded as glibc rounds blocks. What ops
/// share with other tapes, and pinned memory with hashes of a device's contents, is not in it.
std::int64_t bytes_of(const Tape& tape);

}  // namespace gradrecomp::tape
