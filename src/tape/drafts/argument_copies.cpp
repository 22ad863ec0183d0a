#include "tape/drafts/argument_copies.h"

#include <c10/util/ScopeExit.h>

#include <vector>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/aten/intercepted_key.h"
#include "tape/aten/lent_memory.h"
#include "tape/calls/arguments.h"

namespace gradrecomp::tape {
namespace {

std::int64_t elements_beyond_alignment(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(misalignment_of(tensor.const_data_ptr()) / tensor.itemsize());
}

/// Whether there may be a copy of the same strides that begins as far beyond what is aligned.
bool can_have_like(const at::Tensor& tensor) {
  const bool takes_little = tensor.is_non_overlapping_and_dense() || is_worth_a_copy(tensor);
  return takes_little && misalignment_of(tensor.const_data_ptr()) % tensor.itemsize() == 0;
}

/// Whether a clone lies in its memory as it does, from end to end.
bool is_all_of_its_memory(const at::Tensor& tensor) {
  return elements_beyond_alignment(tensor) == 0 && tensor.is_non_overlapping_and_dense() &&
         tensor.nbytes() == tensor.storage().nbytes();
}

/// A view of the same bytes that takes them for conjugates and negatives where `shown` says so.
at::Tensor flipped(const at::Tensor& tensor, const at::Tensor& shown) {
  if (!shown.is_conj() && !shown.is_neg()) return tensor;
  const BelowRecording below;
  at::Tensor view = tensor;
  if (shown.is_conj()) view = view._conj();
  if (shown.is_neg()) view = view._neg_view();
  return view;
}

}  // namespace

void ArgumentCopies::add_to(Draft& draft, const torch::jit::Stack& stack) {
  if (is_copying_) return;  // the call is a copy itself
  add_statistics(draft, stack);
  add_small(draft, stack);
}

// A BatchNorm in training, after the region, updates running statistics without raising their
// version counters. So what one in evaluation reads is copied.
void ArgumentCopies::add_statistics(Draft& draft, const torch::jit::Stack& stack) {
  const OpTraits& traits = draft.traits;
  if (traits.running_statistics.empty()) return;
  const std::size_t first = stack.size() - traits.num_arguments();
  draft.updates_statistics =
      !traits.never_trains &&
      (traits.training_argument < 0 || stack[first + traits.training_argument].toBool());
  if (draft.updates_statistics) return;
  for (const std::int16_t argument : traits.running_statistics) {
    const c10::IValue& statistics = stack[first + argument];
    if (!statistics.isTensor() || !statistics.toTensor().defined()) continue;
    if (!writer_.is_external(statistics.toTensor())) continue;
    if (!can_have_like(statistics.toTensor())) {
      draft.op.replayable = false;
      return;
    }
    draft.copies.push_back({argument, -1, make(statistics.toTensor())});
  }
}

void ArgumentCopies::add_small(Draft& draft, const torch::jit::Stack& stack) {
  const std::size_t first = stack.size() - draft.traits.num_arguments();
  for (std::size_t i = 0; i < draft.traits.num_arguments(); ++i) {
    if (draft.traits.writes[i] != 0) continue;
    const c10::IValue& argument = stack[first + i];
    if (!argument.isTensor() && !argument.isTensorList() && !argument.isOptionalTensorList()) {
      continue;
    }
    for_each_tensor(argument, [&](const at::Tensor& tensor, std::int32_t element) {
      if (!needs_a_copy(draft.traits, tensor) || !can_have_like(tensor)) return;
      if (draft.traits.reads_beyond && !is_all_of_its_memory(tensor)) {
        draft.op.replayable = false;
        return;
      }
      draft.note_gradient_of(tensor);
      draft.copies.push_back({static_cast<std::int16_t>(i), element, of_current(tensor)});
    });
  }
}

// Nothing is made again from memory that may be gone. Autograd saves most weights in such memory,
// which then lasts; those that it does not save are biases, which are small.
//
// What a region writes outside it, such as a step count or moving means, it writes again in the
// next forward pass, which may come before backward: plain training saves what it makes of that,
// not the memory itself. What the program copies is kept anyway.
bool ArgumentCopies::needs_a_copy(const OpTraits& reader, const at::Tensor& tensor) const {
  const bool may_be_overwritten = writer_.has_written_externals() && !reader.copies;
  if (!tensor.requires_grad() && !may_be_overwritten) return false;
  if (!is_worth_a_copy(tensor)) return false;
  return (tensor.requires_grad() && may_vanish(tensor)) ||
         (may_be_overwritten && was_written(tensor));
}

/// Whether the region has written to that memory outside it, and autograd does not need it to stay
/// as it is.
bool ArgumentCopies::was_written(const at::Tensor& tensor) const {
  const ValueId known = tensor.has_storage() ? writer_.tape().find(tensor) : -1;
  if (known < 0) return false;
  const Value& value = writer_.tape().values()[known];
  return value.external && value.producer >= 0 && !value.lent && value.num_handles == 0;
}

bool ArgumentCopies::may_vanish(const at::Tensor& parameter) const {
  const auto* storage = parameter.storage().unsafeGetStorageImpl();
  const ValueId known = writer_.tape().find(storage);
  if (known < 0) return is_lent(*storage);
  return writer_.tape().values()[known].lent &&
         writer_.tape().may_vanish(known, Geometry(parameter), false);
}

at::Tensor ArgumentCopies::of_current(const at::Tensor& tensor) {
  if (const at::Tensor known = small_.find(tensor); known.defined()) return known;
  const at::Tensor copy = make(tensor);
  small_.add(tensor, copy, writer_.read(copy));
  return copy;
}

// Of a tensor of which there can be a like. The bytes are copied, not what the tensor makes of
// them.
at::Tensor ArgumentCopies::make(const at::Tensor& tensor) {
  is_copying_ = true;
  const auto is_done = c10::make_scope_exit([this] { is_copying_ = false; });
  const at::Tensor bytes = flipped(tensor, tensor);
  const std::int64_t shift = elements_beyond_alignment(tensor);
  const bool is_like_its_clone = shift == 0 && tensor.is_non_overlapping_and_dense();
  return flipped(is_like_its_clone ? record_clone(bytes) : record_row(bytes, shift), tensor);
}

at::Tensor ArgumentCopies::record_clone(const at::Tensor& tensor) {
  static const auto clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  torch::jit::Stack stack = {tensor, c10::IValue()};
  record_(clone, keys_below(tensor), &stack);
  return stack.front().toTensor();
}

// Kernels may choose by where memory begins in which order they add, so the copy has as many
// elements before it as the tensor lies beyond what is aligned. What lies in its gaps is copied,
// too.
at::Tensor ArgumentCopies::record_row(const at::Tensor& tensor, std::int64_t shift) {
  static const auto pad =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::constant_pad_nd", "");
  const auto strided = [](const at::Tensor& memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                          std::int64_t offset) {
    const BelowRecording below;
    return memory.as_strided(sizes, strides, offset);
  };
  const auto item_bytes = static_cast<std::int64_t>(tensor.itemsize());
  const std::int64_t count = size_of(Geometry(tensor).extent()) / item_bytes;
  const at::Tensor row = strided(tensor, {count}, {1}, tensor.storage_offset());
  torch::jit::Stack stack = {row, std::vector<std::int64_t>{shift, 0}, c10::Scalar(0)};
  record_(pad, keys_below(tensor), &stack);
  return strided(stack.front().toTensor(), tensor.sizes(), tensor.strides(), shift);
}

}  // namespace gradrecomp::tape
