#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include "gradrecomp/tape/recorder.h"

namespace gradrecomp::tape {

/// While it lives, operators that this thread calls are seen by neither autograd nor a recorder:
/// the tape's own work, whose tensors are none of the program's.
struct Unseen {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  RecordingPause unrecorded;
};

}  // namespace gradrecomp::tape
