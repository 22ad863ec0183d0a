#pragma once

#include "tape/tape.h"

namespace gradrecomp::tape {

/// Lets `reader` use `storage`, which holds `value`, once it is made, and its memory wait for that.
void hand_over(const Tape& tape, ValueId value, const c10::Storage& storage,
               const c10::Stream& reader);

}  // namespace gradrecomp::tape
