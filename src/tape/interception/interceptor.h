#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Who gets the calls of threads that include kInterceptedKey.
struct CallReceiver {
  /// Takes a call in place of its kernel. `below` are the keys that come after.
  void (*take)(const c10::OperatorHandle& op, c10::DispatchKeySet below,
               torch::jit::Stack* stack) = nullptr;
  /// Whether this thread includes the key for the receiver.
  bool (*is_on)() noexcept = nullptr;
};

/// Brings calls on threads that include kInterceptedKey to `receiver`, whatever other kernels that
/// key has. See Note [ Two ways to intercept ].
///
/// Threads: call it once, before the first thread includes the key.
/// Throws:  c10::Error if another copy of GradRecomp in this process did it.
void install_interceptor(const CallReceiver& receiver);

/// Does the same for operators that were registered since; costs next to nothing if there are none.
void intercept_new_operators();

/// Hands a call to the receiver.
void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Whether this thread includes the key for the receiver.
bool receives_calls() noexcept;

}  // namespace gradrecomp::tape
