#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// The operator that stands on a tape for a write that none made. It does nothing.
const c10::OperatorHandle& unseen_write();

}  // namespace gradrecomp::tape
