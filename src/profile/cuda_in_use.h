#pragma once

#include "gradrecomp/version.h"

namespace gradrecomp::profile {

/// Whether something has been allocated on a CUDA device. An event on a device that nobody uses
/// would make a context there, with its memory.
bool cuda_in_use();

}  // namespace gradrecomp::profile
