#pragma once

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Whether work of this thread is captured into a graph now, see register_capture_query(). Nothing
/// may wait for the device meanwhile, generators have no state to go back to, and host memory may
/// be another when the graph runs.
bool is_capturing();

}  // namespace gradrecomp::tape
