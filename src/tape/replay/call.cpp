#include "tape/replay/call.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "tape/aten/below_recording.h"
#include "tape/aten/capture.h"
#include "tape/aten/stream_scope.h"
#include "tape/dispatch/op_traits.h"
#include "tape/dispatch/shortage.h"

namespace gradrecomp::tape {
namespace {

// LibTorch returns several such outputs as references into the stack, which it has cleared before
// it copies them.
bool gives_references(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return returns.size() > 1 && std::ranges::any_of(returns, [](const c10::Argument& output) {
           return output.alias_info() != nullptr;
         });
}

// Copies to other memory of the host have ended when they return.
bool is_pinned(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.is_pinned();
}

bool shows_pinned_memory(const c10::IValue& returned) {
  if (returned.isTensor()) return is_pinned(returned.toTensor());
  return returned.isTensorList() && std::ranges::any_of(returned.toTensorVector(), &is_pinned);
}

// A program that has a device copy to the host waits for that in its own way before it reads the
// copy, which no recorded op shows.
void wait_for_host_copies(const Op& op, const torch::jit::Stack& returned) {
  if (is_capturing()) return;  // when waiting is not allowed
  const BelowRecording below;
  if (std::ranges::any_of(returned, shows_pinned_memory)) op.stream()->synchronize();
}

}  // namespace

void run_call(const Op& op, torch::jit::Stack& stack) {
  const DispatchScope dispatch_scope(*op.dispatch_state);
  const StreamScope stream(op.stream());
  std::optional<RngRestore> rng;
  if (op.rng) rng.emplace(*op.rng);
  AlgorithmWatch watch;  // Note [ Algorithms that change for lack of memory ]
  // Another library's kernel may write to a tensor of which it has the only reference.
  const bool holds_arguments =
      op.traits->has_other_kernel() || gives_references(op.handle().schema());
  const torch::jit::Stack alive = holds_arguments ? stack : torch::jit::Stack();
  std::optional<SettingsRestore> settings;
  if (op.traits->has_other_kernel()) settings.emplace();
  op.handle().redispatchBoxed(op.keys, &stack);
  if (!op.stream()) return;  // the CPU's algorithms do not hang on workspaces
  wait_for_host_copies(op, stack);
  if (op.traits->fickle != Fickle::by_algorithm || !watch.has_changed()) return;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "GradRecomp: ", op.name(),
                   " found no memory for its workspace in a replay, so it may have switched to "
                   "another algorithm with different bits from the forward pass's. Ask for a lower "
                   "peak, or skip this step: from the next one on, such ops are verified anew.");
}

}  // namespace gradrecomp::tape
