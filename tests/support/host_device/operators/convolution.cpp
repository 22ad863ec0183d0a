#include "operators/convolution.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "operators/operator_call.h"
#include "operators/tensors.h"
#include "operators/view.h"
#include "streams/queue.h"

namespace gradrecomp::test::host_device {
namespace {

using c10::IValue;
using torch::jit::Stack;

// Odd while threads choose, and another number each time.
std::atomic<std::uint64_t> generation = 0;
std::atomic<std::uint64_t> num_threads = 0;

/// Whether this thread convolves in double precision, as it has done before.
bool takes_other_algorithm() {
  thread_local std::pair<std::uint64_t, bool> chosen;
  const auto now = generation.load();
  if (now % 2 == 0) return false;
  if (chosen.first != now) chosen = {now, num_threads++ % 2 == 1};
  return chosen.second;
}

HostCall in_double(const HostCall& call) {
  return [call](Stack& stack) {
    for (auto& value : stack) {
      const bool is_number = value.isTensor() && value.toTensor().defined();
      if (is_number) value = value.toTensor().to(at::kDouble);
    }
    call(stack);
  };
}

c10::OperatorHandle operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

void convolve_on_host(Stack& stack) {
  static const HostCall call = host_call_of(operator_named("aten::convolution"));
  call(stack);
}

// aten::convolution_backward also wants to know how large the bias was.
void differentiate_on_host(Stack& stack) {
  static const HostCall call = host_call_of(operator_named("aten::convolution_backward"));
  const auto num_channels = stack[0].toTensor().size(1);
  stack.insert(stack.begin() + 3, IValue(std::vector<std::int64_t>{num_channels}));
  call(stack);
}

// On a synchronous device at once, on tensors that lie where the device's do.
void call_at_once(const c10::OperatorHandle& op, Stack* stack, const HostCall& call) {
  const auto num_arguments = op.schema().arguments().size();
  Stack host(stack->end() - static_cast<std::ptrdiff_t>(num_arguments), stack->end());
  for (auto& value : host) {
    if (value.isTensor() && value.toTensor().defined()) value = on_host(value.toTensor());
  }
  const auto device = (*stack)[stack->size() - num_arguments].toTensor().device();
  const auto dtype = host.front().toTensor().scalar_type();
  call(host);
  torch::jit::drop(*stack, num_arguments);
  for (const auto& value : host) {
    const auto& tensor = value.toTensor();
    stack->emplace_back(tensor.defined() ? tensor.to(device, dtype) : tensor);
  }
}

void run(const c10::OperatorHandle& op, Stack* stack, const HostCall& plain) {
  const HostCall chosen = takes_other_algorithm() ? in_double(plain) : plain;
  if (is_asynchronous()) {
    call_on_device(op, stack, plain, chosen);
  } else {
    call_at_once(op, stack, chosen);
  }
}

void convolve(const c10::OperatorHandle& op, Stack* stack) { run(op, stack, &convolve_on_host); }

void differentiate(const c10::OperatorHandle& op, Stack* stack) {
  run(op, stack, &differentiate_on_host);
}

}  // namespace

void set_algorithms_by_thread(bool by_thread) {
  const bool is_on = generation % 2 == 1;
  if (is_on != by_thread) ++generation;
  num_threads = 0;
}

void register_convolution() {
  static auto library = MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1);
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolve>());
  library.impl("convolution_backward_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&differentiate>());
}

}  // namespace gradrecomp::test::host_device
