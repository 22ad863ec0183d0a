#pragma once

#include <c10/core/ScalarType.h>

#include "gradrecomp/version.h"
#include "tape/op.h"

namespace gradrecomp::tape {

class Tape;

/// Sees what happens to a tape while a step is profiled. Called on the thread that does it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void op_begins(const Tape& tape) = 0;
  /// `op` is -1 for an operator that made no value and so was not recorded. Ops after it on the
  /// tape are parts of the same call.
  virtual void op_ends(const Tape& tape, OpId op) = 0;
  /// `op` stands for a call whose begin was not seen, only its results.
  virtual void took_in(const Tape& tape, OpId op) = 0;
  virtual void saved(const Tape& tape, ValueId value, c10::ScalarType type) = 0;
  virtual void sealed(const Tape& tape) = 0;
  virtual void demanded(const Tape& tape, ValueId value) = 0;
  /// What a demand sets off has been enqueued when it ends; a replay that throws does not end.
  virtual void replay_begins(const Tape& tape) = 0;
  virtual void replay_ends(const Tape& tape) = 0;
  virtual void releases(const Tape& tape, ValueId value) = 0;  ///< before memory is let go
};

}  // namespace gradrecomp::tape
