#pragma once

#include <functional>
#include <vector>

namespace gradrecomp::fuzzing {

/// Runs every task on a thread of its own, all at once, and waits for them.
///
/// Throws: what the first of the tasks that failed threw.
void run_on_threads(const std::vector<std::function<void()>>& tasks);

}  // namespace gradrecomp::fuzzing
