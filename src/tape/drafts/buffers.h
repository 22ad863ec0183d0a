#pragma once

#include "tape/op.h"
#include "tape/tape.h"

namespace gradrecomp::tape {

/// Whether `copy`, an op that copies, reads a buffer of the program's that may be written to before
/// a replay, so that its result is to be kept.
[[nodiscard]] bool copies_buffer(const Op& copy, const Tape& tape);

/// Whether what `op` makes takes no more memory than a buffer which it reads and the region has
/// written to. Keeping that is cheaper than the copy of the buffer that a replay would need.
[[nodiscard]] bool makes_no_more_than_a_buffer(const Op& op, const Tape& tape);

}  // namespace gradrecomp::tape
