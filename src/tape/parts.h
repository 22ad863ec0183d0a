#pragma once

#include <ATen/core/ivalue.h>

#include <optional>

#include "gradrecomp/tape/tape.h"

namespace gradrecomp::tape {

/// Takes a normalisation's result out of `call`, which has just returned `returns` and is not on
/// the tape yet, as an op of its own to be put right behind it; see Note [ Parts ] in parts.cpp.
///
/// Returns nothing, and leaves `call` as it is, where no substitute could make that result.
std::optional<Op> take_part(Op& call, c10::ArrayRef<c10::IValue> returns, Tape& tape);

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
