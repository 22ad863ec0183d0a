#pragma once

#include <memory>
#include <vector>

#include "step.h"

namespace gradrecomp {

/// Puts an autograd node behind each output that requires a gradient. They change no gradient; the
/// first of them that backward meets opens the replay phase and asks to be called when the backward
/// pass has ended.
void close_outputs(const std::vector<at::Tensor*>& outputs, std::shared_ptr<ClosedStep> step);

}  // namespace gradrecomp
