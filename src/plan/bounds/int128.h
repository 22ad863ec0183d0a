#pragma once

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// A whole number that sums of bytes times weights cannot run over.
__extension__ using Int128 = __int128;

}  // namespace gradrecomp::plan
