#pragma once

#include "tape/tape.h"

namespace gradrecomp::tape {

/// The last value made in the storage of `value`.
ValueId last_version(const Tape& tape, ValueId value);

/// The same in one memory, of which a storage that was resized has had several.
ValueId last_in_memory(const Tape& tape, ValueId value);

/// Whether `next` was made in the memory of `value`, which it overwrote.
bool takes_over(const Tape& tape, ValueId next, ValueId value);

}  // namespace gradrecomp::tape
