#pragma once

#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Runs `work` on the thread on which autograd runs backward for `device`, and waits for it.
///
/// On CUDA, cuDNN keeps the algorithms that it has chosen for each thread. So only there does an op
/// show what a replay will make. On the CPU that is the current thread.
/// Throws: what `work` throws.
void run_where_replays_run(c10::Device device, c10::function_ref<void()> work);

}  // namespace gradrecomp::tape
