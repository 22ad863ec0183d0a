#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Brings calls on threads that include kInterceptedKey to intercept(), whatever other kernels that
/// key has. See Note [ Two ways to intercept ].
///
/// Threads: call it once, before the first thread includes the key.
/// Throws:  c10::Error if another copy of GradRecomp in this process did it.
void install_interceptor();

/// Does the same for operators that were registered since; costs next to nothing if there are none.
void intercept_new_operators();

/// Hands a call to the recorder of this thread, or on if it has none.
void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace gradrecomp::tape
