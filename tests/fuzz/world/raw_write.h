#pragma once

#include <torch/torch.h>

#include "fuzz/world/dice.h"

namespace gradrecomp::fuzzing {

/// Writes part of `tensor`, in float32, through a pointer: neither the dispatcher nor a version
/// counter learns of it.
void raw_write(Dice& dice, const torch::Tensor& tensor);

}  // namespace gradrecomp::fuzzing
