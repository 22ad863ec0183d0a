#pragma once

#include <ATen/core/Tensor.h>

#include "gradrecomp/kernels/table.h"

namespace gradrecomp::tape {

/// The kernels for the device of `tensor`, which must have some.
const kernels::Table& kernels_of(const at::Tensor& tensor);

/// The stream that work on `tensor` goes to now.
kernels::Stream current_stream(const at::Tensor& tensor);

}  // namespace gradrecomp::tape
