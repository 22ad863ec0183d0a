#include "operators/arguments.h"

#include <ATen/ATen.h>

#include "streams/streams.h"

namespace gradrecomp::test::host_device {
namespace {

using c10::IValue;

bool is_of_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::kPrivateUse1;
}

/// Calls `see` for each tensor of `value`, defined or not, with its place in a list or -1.
template <typename See>
void for_each_tensor(const IValue& value, See see) {
  if (value.isTensor()) return see(value.toTensor(), -1);
  if (!value.isList()) return;
  const auto list = value.toList();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const IValue element = list.get(i);
    if (element.isTensor()) see(element.toTensor(), static_cast<std::int64_t>(i));
  }
}

/// Puts a tensor into an argument, or into an element of one that is a list.
void put(IValue& argument, std::int64_t element, at::Tensor tensor) {
  if (element < 0) {
    argument = std::move(tensor);
  } else if (argument.isTensorList()) {
    argument.toTensorList().set(element, std::move(tensor));
  } else {
    argument.toList().set(element, std::move(tensor));
  }
}

IValue copied_list(const IValue& value) {
  return value.isList() ? IValue(value.toList().copy()) : value;
}

IValue for_host(const IValue& value) {
  if (value.isDevice()) return c10::Device(c10::kCPU);
  return copied_list(value);
}

}  // namespace

std::vector<TensorPlace> device_tensors(const torch::jit::Stack& stack, std::size_t num_arguments) {
  std::vector<TensorPlace> places;
  const auto first = stack.size() - num_arguments;
  for (std::size_t i = 0; i < num_arguments; ++i) {
    for_each_tensor(stack[first + i], [&](const at::Tensor& tensor, std::int64_t element) {
      if (is_of_device(tensor)) places.push_back({i, element, tensor});
    });
  }
  return places;
}

c10::Device device_of_call(const torch::jit::Stack& stack, std::size_t num_arguments) {
  const auto places = device_tensors(stack, num_arguments);
  for (const auto& place : places) {
    TORCH_CHECK(place.tensor.device() == places.front().tensor.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                places.front().tensor.device(), " and ", place.tensor.device(), "!");
  }
  if (!places.empty()) return places.front().tensor.device();
  for (auto value = stack.end() - static_cast<std::ptrdiff_t>(num_arguments); value != stack.end();
       ++value) {
    if (value->isDevice()) return with_index(value->toDevice());
  }
  return current_device();
}

Arguments::Arguments(const torch::jit::Stack& stack, std::size_t num_arguments) {
  for (std::size_t i = 0; i < num_arguments; ++i) {
    const IValue& value = stack[stack.size() - num_arguments + i];
    IValue& other = others_.emplace_back(for_host(value));
    for_each_tensor(value, [&](const at::Tensor& tensor, std::int64_t element) {
      if (is_of_device(tensor)) {
        slots_.push_back({i, element, view_of(tensor)});
        put(other, element, at::Tensor());
      } else if (tensor.defined()) {
        // Read now, as CUDA does. A number keeps its way to promote types.
        at::Tensor copy = tensor.clone();
        copy.unsafeGetTensorImpl()->set_wrapped_number(
            tensor.unsafeGetTensorImpl()->is_wrapped_number());
        put(other, element, std::move(copy));
      }
    });
  }
}

torch::jit::Stack Arguments::on_host(HostTensors tensors) const {
  torch::jit::Stack stack;
  for (const IValue& other : others_) stack.push_back(copied_list(other));
  for (const Slot& slot : slots_) put(stack[slot.argument], slot.element, tensors.of(slot.view));
  return stack;
}

}  // namespace gradrecomp::test::host_device
