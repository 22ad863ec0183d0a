#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

using VisitTensor = c10::function_ref<void(const at::Tensor&, std::int32_t element)>;

/// Calls `visit` for every defined tensor in `argument`, at any depth.
void for_each_tensor(const c10::IValue& argument, VisitTensor visit);

/// Whether its content may change or cannot be copied, at any depth, so that the call cannot be run
/// again.
bool is_opaque(const c10::IValue& argument);

/// Whether resize_() or resize_as_(), called with the last `count` of `stack`, takes new memory.
bool grows(const torch::jit::Stack& stack, std::size_t count);

/// Whether they give the tensor the sizes that it has.
bool keeps_sizes(const torch::jit::Stack& stack, std::size_t count);

}  // namespace gradrecomp::tape
