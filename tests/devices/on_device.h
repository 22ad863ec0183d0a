#pragma once

#include <torch/torch.h>

#include "support/host_device/host_device.h"

namespace gradrecomp::test {

inline at::Tensor on_device(const at::Tensor& tensor) { return tensor.to(kHostDevice); }

}  // namespace gradrecomp::test
