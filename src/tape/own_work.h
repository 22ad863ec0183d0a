#pragma once

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

class Tape;

/// True while this thread works for GradRecomp itself (replay, verification, release), so that logs
/// of the program's own allocations leave these out.
bool in_own_work() noexcept;

/// The tape that this thread recorded on, or that it asked for a value or gave one back to, last;
/// null: none so far. What the thread allocates is taken for part of that tape's step. It may be
/// gone.
const Tape* touched_last() noexcept;
void touch(const Tape* tape) noexcept;

/// Marks a scope as GradRecomp's own work.
class OwnWork {
 public:
  OwnWork() noexcept;
  ~OwnWork();
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;
};

}  // namespace gradrecomp::tape
