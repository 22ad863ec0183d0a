#pragma once

#include "gradrecomp/export.h"

namespace gradrecomp::device {

/// Makes `is_capturing` what says whether work of this thread's current streams is captured into a
/// graph, as CUDA graphs are, instead of run. A library calls it when it is loaded.
GRADRECOMP_API void register_capture_query(bool (*is_capturing)());

}  // namespace gradrecomp::device
