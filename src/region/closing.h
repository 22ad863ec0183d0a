#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "step.h"

namespace gradrecomp {

/// Hooks the autograd nodes of outputs that require a gradient, if the region made them: their
/// numbers are `first_node` and above. The first that backward meets opens the replay phase and
/// asks to be called when the backward pass has ended.
void close_outputs(const std::vector<at::Tensor*>& outputs, const std::shared_ptr<ClosedStep>& step,
                   std::uint64_t first_node);

}  // namespace gradrecomp
