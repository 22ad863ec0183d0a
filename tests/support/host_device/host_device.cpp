#include "host_device.h"

namespace gradrecomp::test {

void move_to_host_device(torch::nn::Module& module, c10::Device device) {
  const auto move = [&](const at::Tensor& tensor) {
    const auto moved = tensor.detach().to(device);
    tensor.unsafeGetTensorImpl()->shallow_copy_from(moved.getIntrusivePtr());
  };
  for (const auto& parameter : module.parameters()) move(parameter);
  for (const auto& buffer : module.buffers()) move(buffer);
}

}  // namespace gradrecomp::test
