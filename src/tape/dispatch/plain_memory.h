#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

// Note [ The door ]
// ~~~~~~~~~~~~~~~~~
// A tape follows memory: strided elements in a storage, of which a tensor is nothing but a view. It
// can follow neither tensors that are more than that (wrapper subclasses, functional, fake, meta,
// zero, nested, sparse and quantized tensors, the levels of vmap and grad), nor calls that
// something above the kernels handles itself (a dispatch mode, a transform, a trace). One rule
// serves all of them, for the recorder and for handles alike: such a call is passed on unrecorded,
// such a tensor is held by its handle as autograd itself would hold it, and what such a call read
// becomes a source, as it may live on in what the call made.

/// Whether a tape can follow what `tensor`, which is defined, shows.
bool is_plain(const at::TensorBase& tensor);

/// Calls `visit` for each plain tensor that `tensor` consists of: itself, or what a sparse one
/// holds. Of tensors of other kinds that are more than memory none is known.
void for_each_part(const at::Tensor& tensor, c10::function_ref<void(const at::Tensor&)> visit);

/// Whether `value` holds no tensor that a tape cannot follow, at any depth.
bool holds_plain_tensors(const c10::IValue& value);

/// Whether no mode, transform or trace of this thread looks at calls before kernels do.
bool dispatches_plainly();

}  // namespace gradrecomp::tape
