#pragma once

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Lets operators that are functions in Python, such as torch.cond, run on threads that record:
/// what they call is recorded. Does nothing without Python, and nothing the second time.
///
/// Threads: any, with or without the interpreter's lock.
void let_python_operators_pass();

}  // namespace gradrecomp::tape
