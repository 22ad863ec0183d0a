#pragma once

#include <ATen/core/stack.h>

#include "tape/op.h"

namespace gradrecomp::tape {

/// Calls LibTorch's kernels for `op` on `stack`, its arguments, and leaves there what it returns:
/// under the state, on the stream and with the random numbers of its first run.
/// Throws:  c10::OutOfMemoryError if its algorithm may have changed for lack of memory.
void run_call(const Op& op, torch::jit::Stack& stack);

}  // namespace gradrecomp::tape
