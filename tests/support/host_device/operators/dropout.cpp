#include "operators/dropout.h"

#include <ATen/ATen.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include "streams/queue.h"

namespace gradrecomp::test::host_device {
namespace {

using torch::jit::Stack;

// In parts, of which only the first draws. As it reads nothing it can do so at once, while the rest
// waits for its turn. To the bit what the CPU's kernel does.
std::tuple<at::Tensor, at::Tensor> dropped_out(const at::Tensor& input, double p, bool train) {
  if (!train) return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  const double kept = 1 - p;
  auto mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(kept);
  auto output = input.mul(mask).mul_(kept == 0 ? 0 : 1 / kept);
  return {output, mask};
}

void native_dropout(const c10::OperatorHandle& op, Stack* stack) {
  if (!is_asynchronous()) return at::native::cpu_fallback(op, stack);
  const auto [output, mask] = dropped_out(
      torch::jit::peek(*stack, 0, 3).toTensor(), torch::jit::peek(*stack, 1, 3).toDouble(),
      torch::jit::peek(*stack, 2, 3).toOptional<bool>().value_or(true));
  torch::jit::drop(*stack, 3);
  torch::jit::push(*stack, output, mask);
}

}  // namespace

void register_dropout() {
  static auto library = MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1);
  library.impl("native_dropout", torch::CppFunction::makeFromBoxedFunction<&native_dropout>());
}

}  // namespace gradrecomp::test::host_device
