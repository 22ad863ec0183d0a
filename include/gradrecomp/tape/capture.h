#pragma once

#include "gradrecomp/export.h"

namespace gradrecomp::tape {

/// Makes `is_capturing` what says whether work of this thread's current streams is captured into a
/// graph, as CUDA graphs are, instead of run. A library calls it when it is loaded.
GRADRECOMP_API void register_capture_query(bool (*is_capturing)());

/// Whether work is captured now. Nothing may wait for the device meanwhile, generators have no
/// state to go back to, and host memory may be another when the graph runs.
GRADRECOMP_API bool is_capturing();

}  // namespace gradrecomp::tape
