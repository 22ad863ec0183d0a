#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// kUnseenWrite, which does nothing.
const c10::OperatorHandle& unseen_write();

}  // namespace gradrecomp::tape
