#include "tape/drafts/argument_reader.h"

#include <ATen/core/List.h>

#include <algorithm>
#include <utility>

#include "tape/aten/bytes.h"
#include "tape/calls/arguments.h"
#include "tape/dispatch/lists.h"

namespace gradrecomp::tape {
namespace {

/// How many reads there will be, or a few more: undefined tensors are not read.
std::size_t num_tensors(c10::ArrayRef<c10::IValue> arguments) {
  std::size_t count = 0;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      ++count;
    } else if (argument.isTensorList() || argument.isOptionalTensorList()) {
      count += argument.toListRef().size();
    }
  }
  return count;
}

/// Who calls an operator by a stack shares its lists, and may change them afterwards, as may the
/// operator, if it is not LibTorch's own. Where LibTorch made the stack, nobody else has them.
c10::IValue own(const c10::IValue& argument, bool is_foreign) {
  if (!argument.isList()) return argument;
  const bool may_be_shared = is_foreign || argument.use_count() > 1 || !is_flat_list(argument);
  return may_be_shared ? with_own_lists(argument) : argument;
}

/// Whether `op` makes the same without these running `statistics`. Kernels choose by whether they
/// are contiguous, and a normalisation whose input is in 16 bits gives the statistics that it
/// returns the type of its weight or, if it has none, of these.
bool can_do_without(const Op& op, const at::Tensor& statistics) {
  const bool reads_type = std::ranges::any_of(op.reads, [&](const Read& read) {
    return !read.scratch && read.geometry->scalar_type() == statistics.scalar_type();
  });
  return reads_type && statistics.is_contiguous();
}

/// Appends what the op holds of the argument at `position`.
void add_argument(Draft& draft, std::int16_t position, c10::IValue held) {
  auto& arguments = draft.op.arguments;
  if (arguments.empty()) {
    if (held.isNone()) return;
    arguments.reserve(draft.traits.num_arguments() - static_cast<std::size_t>(position));
  }
  arguments.push_back(std::move(held));
}

}  // namespace

bool has_gradient(const at::TensorBase& tensor) {
  if (!tensor.requires_grad()) return false;
  if (!tensor.is_leaf()) return tensor.is_view() && has_gradient(tensor._base());
  return tensor.unsafeGetTensorImpl()->grad().defined();
}

void ArgumentReader::read(Draft& draft, const torch::jit::Stack& stack) {
  const std::size_t count = draft.traits.num_arguments();
  const auto arguments = torch::jit::last(stack, count);
  draft.op.reads.reserve(num_tensors(arguments));
  for (std::size_t i = 0; i < count; ++i) {
    const auto position = static_cast<std::int16_t>(i);
    const auto& statistics = draft.traits.running_statistics;
    if (!statistics.empty() && position == statistics.front()) look_at_statistics(draft, arguments);
    read_argument(draft, position, arguments[i]);
  }
}

// Operators take all of them or none.
void ArgumentReader::look_at_statistics(Draft& draft, c10::ArrayRef<c10::IValue> arguments) const {
  const auto can_be_left_out = [&](std::int16_t position) {
    const c10::IValue& argument = arguments[position];
    if (!argument.isTensor() || !argument.toTensor().defined()) return true;
    const at::Tensor& statistics = argument.toTensor();
    return draft.traits.writes[position] == 0 && can_do_without(draft.op, statistics) &&
           !matters_to_replays(draft.op, statistics);
  };
  draft.leaves_out_statistics =
      draft.updates_statistics &&
      std::ranges::all_of(draft.traits.running_statistics, can_be_left_out);
}

void ArgumentReader::read_argument(Draft& draft, std::int16_t position,
                                   const c10::IValue& argument) {
  if (argument.isTensor()) {
    const at::Tensor& tensor = draft.copy_for(position, -1, argument.toTensor());
    add_argument(draft, position, tensor.defined() ? c10::IValue() : argument);
    if (tensor.defined()) read_tensor(draft, tensor, position, -1);
    return;
  }
  if (argument.isTensorList()) return read_list(draft, position, argument.toTensorList());
  if (argument.isOptionalTensorList()) {
    return read_list(draft, position, argument.toOptionalTensorList());
  }
  bool holds_tensors = false;
  for_each_tensor(argument, [&](const at::Tensor& tensor, std::int32_t element) {
    holds_tensors = true;
    read_tensor(draft, tensor, position, element);
  });
  // Tensors in lists of lists and the like are read, but not put back.
  const bool can_replay = !holds_tensors && !is_opaque(argument);
  if (!can_replay) draft.op.replayable = false;
  add_argument(draft, position, can_replay ? own(argument, draft.traits.foreign) : c10::IValue());
}

template <typename Tensor>
void ArgumentReader::read_list(Draft& draft, std::int16_t position,
                               const c10::List<Tensor>& tensors) {
  c10::List<Tensor> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto element = static_cast<std::int32_t>(i);
    const Tensor given = tensors.get(i);
    const std::optional<at::Tensor> tensor = given;
    places.push_back(tensor ? Tensor(at::Tensor()) : given);
    if (tensor && tensor->defined()) {
      read_tensor(draft, draft.copy_for(position, element, *tensor), position, element);
    }
  }
  add_argument(draft, position, std::move(places));
}

void ArgumentReader::read_tensor(Draft& draft, const at::Tensor& tensor, std::int16_t argument,
                                 std::int32_t element) {
  const OpTraits& traits = draft.traits;
  const auto& statistics = traits.running_statistics;
  bool scratch = false;
  bool updated = false;
  if (std::find(statistics.begin(), statistics.end(), argument) != statistics.end()) {
    if (draft.leaves_out_statistics) return;
    updated = draft.updates_statistics && matters_to_replays(draft.op, tensor);
    scratch = draft.updates_statistics && !updated;
  }
  const bool constant = tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.is_cpu() &&
                        tape_.find(tensor) < 0;
  const bool written = (traits.writes[argument] != 0 || updated) && !scratch;
  Read& read = draft.op.reads.emplace_back();
  read.value = constant ? writer_.add_constant(tensor) : writer_.read(tensor);
  read.argument = argument;
  read.element = element;
  read.written = written;
  read.scratch = scratch;
  read.requires_grad = tensor.requires_grad();
  read.geometry = writer_.tape().geometry_of(tensor);
  const bool external = tape_.values()[read.value].external;
  read.has_gradient = external && has_gradient(tensor);
  // A replay inside the region may have made it in memory different from that of the op itself.
  if (written) {
    draft.written.push_back({draft.op.reads.size() - 1, tensor.storage().getWeakStorageImpl(),
                             c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr())});
  }
  draft.writes_external |= written && external;
  draft.note_gradient_of(tensor);
  // What was given away by hand is gone already: such an op reads the shape alone.
  const bool is_gone = bytes_in(tensor.storage()) < tape_.values()[read.value].bytes;
  draft.reads_passing_memory |=
      is_gone || tape_.may_vanish(draft.op, read) || writer_.is_kept_by_its_maker(read.value);
}

// Whether what the memory of `statistics` contains before `op` updates them, unsaid, may matter to
// a replay. A weight may lie there, too.
bool ArgumentReader::matters_to_replays(const Op& op, const at::Tensor& statistics) const {
  const ValueId known = tape_.find(statistics);
  if (known < 0) return false;
  const Value& value = tape_.values()[known];
  const bool is_read_by_op = std::ranges::any_of(
      op.reads, [&](const Read& read) { return read.value == known && !read.scratch; });
  return !value.external || value.num_reads > 0 || is_read_by_op;
}

}  // namespace gradrecomp::tape
