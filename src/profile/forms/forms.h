#pragma once

#include <c10/core/ScalarType.h>

#include <vector>

#include "gradrecomp/plan/graph.h"
#include "tape/tape.h"

namespace gradrecomp::profile {

/// As what type autograd has saved a value; Undefined: not known.
struct SavedType {
  tape::ValueId value = -1;
  c10::ScalarType type = c10::ScalarType::Undefined;
};

/// Says of the values of `graph`, the recorded step, which may be rounded and which must stay exact
/// where others are rounded. `drawing` are the ops that drew random numbers, in order.
///
/// A value may be rounded if the op that made it and all that read it are smooth, and these and all
/// that saved it took it for float32, unless it was made of exact values alone: a mask times a
/// number looks like any other result, but is the same few numbers over and over, so that rounding
/// it would scale gradients.
void mark_forms(const tape::Tape& tape, const std::vector<SavedType>& saved,
                const std::vector<tape::OpId>& drawing, plan::Graph& graph);

}  // namespace gradrecomp::profile
