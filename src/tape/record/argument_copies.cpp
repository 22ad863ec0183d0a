#include "tape/record/argument_copies.h"

#include <c10/util/ScopeExit.h>

#include "tape/aten/lent_memory.h"

namespace gradrecomp::tape {

void ArgumentCopies::add_to(Draft& draft, const torch::jit::Stack& stack) {
  if (is_copying_) return;  // the call is a copy itself
  add_statistics(draft, stack);
  add_lent_parameters(draft, stack);
}

// A BatchNorm in training, after the region, updates running statistics without raising their
// version counters. So what one in evaluation reads is copied.
void ArgumentCopies::add_statistics(Draft& draft, const torch::jit::Stack& stack) {
  const OpTraits& traits = draft.traits;
  if (traits.running_statistics.empty()) return;
  const std::size_t first = stack.size() - traits.num_arguments();
  draft.updates_statistics =
      traits.training_argument < 0 || stack[first + traits.training_argument].toBool();
  if (draft.updates_statistics) return;
  for (const std::int16_t argument : traits.running_statistics) {
    const c10::IValue& statistics = stack[first + argument];
    if (!statistics.isTensor() || !statistics.toTensor().defined()) continue;
    if (!writer_.is_external(statistics.toTensor())) continue;
    draft.copies.emplace_back(argument, make(statistics.toTensor(), draft.op.keys));
  }
}

// Nothing is made again from memory that may be gone. Autograd saves most weights in such memory,
// which then lasts; those that it does not save are biases, which are small.
void ArgumentCopies::add_lent_parameters(Draft& draft, const torch::jit::Stack& stack) {
  const std::size_t first = stack.size() - draft.traits.num_arguments();
  for (std::size_t i = 0; i < draft.traits.num_arguments(); ++i) {
    if (draft.traits.writes[i] != 0 || !stack[first + i].isTensor()) continue;
    const at::Tensor& tensor = stack[first + i].toTensor();
    if (!tensor.defined() || !tensor.requires_grad() || !is_worth_a_copy(tensor)) continue;
    if (!may_vanish(tensor)) continue;
    draft.note_gradient_of(tensor);
    draft.copies.emplace_back(static_cast<std::int16_t>(i), of_parameter(tensor, draft.op.keys));
  }
}

bool ArgumentCopies::may_vanish(const at::Tensor& parameter) const {
  const auto* storage = parameter.storage().unsafeGetStorageImpl();
  const ValueId known = writer_.tape().find(storage);
  return known < 0 ? is_lent(*storage) : writer_.tape().may_vanish(known);
}

at::Tensor ArgumentCopies::of_parameter(const at::Tensor& parameter, c10::DispatchKeySet keys) {
  if (const at::Tensor known = of_parameters_.find(parameter); known.defined()) return known;
  const at::Tensor copy = make(parameter, keys);
  of_parameters_.add(parameter, copy, writer_.read(copy));
  return copy;
}

at::Tensor ArgumentCopies::make(const at::Tensor& tensor, c10::DispatchKeySet keys) {
  static const auto clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  torch::jit::Stack stack = {tensor, c10::IValue()};
  is_copying_ = true;
  const auto is_done = c10::make_scope_exit([this] { is_copying_ = false; });
  record_(clone, keys, &stack);
  at::Tensor copy = stack.front().toTensor();
  writer_.tape().make_source(writer_.read(copy));
  return copy;
}

}  // namespace gradrecomp::tape
