#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>
#include <vector>

#include "operators/view.h"

namespace gradrecomp::test::host_device {

/// A tensor among the arguments of a call.
struct TensorPlace {
  std::size_t argument = 0;
  std::int64_t element = -1;  ///< of a list
  at::Tensor tensor;
};

/// All defined tensors of the device among the arguments on `stack`.
std::vector<TensorPlace> device_tensors(const torch::jit::Stack& stack, std::size_t num_arguments);

/// The device that a call works on. Throws: if its tensors are on several.
c10::Device device_of_call(const torch::jit::Stack& stack, std::size_t num_arguments);

/// The arguments of a call for later: views instead of the device's tensors, copies of the host's,
/// the host instead of the device.
class Arguments {
 public:
  Arguments(const torch::jit::Stack& stack, std::size_t num_arguments);

  /// Arguments for a call on the host.
  [[nodiscard]] torch::jit::Stack on_host(HostTensors tensors) const;

 private:
  struct Slot {
    std::size_t argument = 0;
    std::int64_t element = -1;
    View view;
  };

  torch::jit::Stack others_;
  std::vector<Slot> slots_;
};

}  // namespace gradrecomp::test::host_device
