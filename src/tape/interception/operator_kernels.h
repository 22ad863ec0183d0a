#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Kernels for kInterceptedKey, one for each operator: the second way of Note [ Two ways to
/// intercept ]. They are never given back.
///
/// Threads: safe to call from several threads.
class OperatorKernels {
 public:
  /// `bare` is an operator without kernels: what it does is what the fallback of the key does.
  static void install(const c10::OperatorHandle& bare);
  /// Gives operators that were registered since a kernel. Does nothing unless installed.
  static void catch_up();
};

}  // namespace gradrecomp::tape
