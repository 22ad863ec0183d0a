#pragma once

#include <functional>

namespace gradrecomp::test::host_device {

/// Does `work` on the thread that is the device's processor, waits for its end and throws what it
/// throws.
///
/// That thread has none of the caller's thread-local state: no recorder, no autograd or autocast,
/// no graph task. So what a device does is not part of the step that made it, as on a GPU.
void run_on_processor(const std::function<void()>& work);

}  // namespace gradrecomp::test::host_device
