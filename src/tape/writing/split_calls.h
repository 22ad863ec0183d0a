#pragma once

#include <ATen/core/ivalue.h>

#include <optional>

#include "tape/writing/tape_writer.h"

namespace gradrecomp::tape {

/// An op that a call is taken apart into, to be put right after the rest of it.
struct Part {
  Op op;
  at::Tensor made;  ///< for it, by us; to be held until the part is on the tape
};

/// Takes a result out of `call`, which has just returned `returns` and is not on the tape yet, if
/// it can be made again for less as a part of its own; see Note [ Parts ] in split_calls.cpp.
///
/// Returns nothing, and leaves `call` as it is, where no kernel could make that result.
std::optional<Part> take_part(Op& call, c10::ArrayRef<c10::IValue> returns, TapeWriter& writer);

}  // namespace gradrecomp::tape
