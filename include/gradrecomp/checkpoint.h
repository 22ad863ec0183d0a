#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <utility>

#include "gradrecomp/export.h"
#include "gradrecomp/region.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// Runs `function(inputs...)` and keeps nothing of its inside for backward, which replays it.
///
///   auto y = gradrecomp::checkpoint([&](torch::Tensor x) { return block->forward(x); }, x);
///
/// The shape of torch.utils.checkpoint, but `function` runs once: BatchNorm statistics, counters
/// and hooks see one forward pass, and random ops need no special care. Inside a Region it just
/// runs, since the region's plan covers it.
/// Memory:  between forward and backward only what the program itself holds, what cannot be
///          replayed, and, until autograd lets go of it, what that has saved and the program held
///          on return.
/// Throws:  what `function` throws.
template <typename Function, typename... Inputs>
auto checkpoint(Function&& function, Inputs&&... inputs) {
  return detail::run_dropped([&] { return function(std::forward<Inputs>(inputs)...); });
}

/// Cuts `model` into `segments` runs of children of nearly equal number and checkpoints all but
/// the last, whose inside backward needs first.
///
/// Throws:  c10::ValueError if `segments` is not between 1 and the number of children.
GRADRECOMP_API at::Tensor checkpoint_sequential(torch::nn::Sequential& model, std::int64_t segments,
                                                at::Tensor input);

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
