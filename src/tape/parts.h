#pragma once

#include <ATen/core/ivalue.h>

#include <optional>

#include "gradrecomp/tape/tape.h"

namespace gradrecomp::tape {

/// An op that a call is taken apart into, to be put right behind the rest of it.
struct Part {
  Op op;
  at::Tensor made;  ///< for it, by us; to be held until the part is on the tape
};

/// Takes a result out of `call`, which has just returned `returns` and is not on the tape yet, if
/// it can be made again for less as a part of its own; see Note [ Parts ] in parts.cpp.
///
/// Returns nothing, and leaves `call` as it is, where no kernel could make that result.
std::optional<Part> take_part(Op& call, c10::ArrayRef<c10::IValue> returns, Tape& tape);

/// The in-place ops right behind `id` that its substitute can do as well: an addition to its
/// result, a rectification of it, or one after the other. Their addend, if any, is read by
/// `residual`-th read of the first of them; -1: there is none.
struct FollowingOps {
  int count = 0;
  std::int32_t residual = -1;
  bool relu = false;
};
FollowingOps following_ops(const Tape& tape, OpId id);

}  // namespace gradrecomp::tape
