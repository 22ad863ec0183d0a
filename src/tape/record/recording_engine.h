#pragma once

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Registers the recorder with the dispatcher and with autograd; does nothing the second time.
/// Throws: c10::Error if another copy of GradRecomp did, or another library took the engine after
/// us.
void install();

}  // namespace gradrecomp::tape
