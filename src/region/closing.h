#pragma once

#include <memory>
#include <vector>

#include "step.h"

namespace gradrecomp {

/// Puts one autograd node behind all outputs that require a gradient. It changes no gradient; its
/// backward is the first that meets the region, so it opens the replay phase and asks to be called
/// when the backward pass has ended.
void close_outputs(const std::vector<at::Tensor*>& outputs, std::shared_ptr<ClosedStep> step);

}  // namespace gradrecomp
