#include "tape/replay/sweep_inputs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "tape/aten/bytes.h"
#include "tape/aten/stream_scope.h"
#include "tape/contents.h"
#include "tape/dispatch/lists.h"
#include "tape/dispatch/op_traits.h"
#include "tape/replay/stream_handover.h"

namespace gradrecomp::tape {

namespace {

bool is_written(const Read& read) { return read.written || read.scratch; }

/// Whether a replay of `op` writes over something that it reads.
bool writes(const Op& op) { return std::ranges::any_of(op.reads, is_written); }

}  // namespace

void refuse_overwritten(const Op& reader, std::int64_t num_bytes, bool found_late) {
  TORCH_CHECK(
      false, "GradRecomp: an input of ", reader.name(), " of ", num_bytes,
      " bytes was overwritten after the forward pass without its version counter growing (by a raw "
      "pointer, x.data(), or a refilled buffer), but a replay needs its old content. Write to it "
      "after backward, give the region a clone of it, or keep what ",
      reader.name(), " makes by Options::selection.",
      found_late ? " What lies on a device is compared when backward has ended, so discard the "
                   "gradients of this backward pass."
                 : "");
}

c10::Storage SweepInputs::storage(const Op& op, const Read& read) {
  return storage(op, read, writes(op));
}

c10::Storage SweepInputs::storage(const Op& op, const Read& read, bool op_writes) {
  if (c10::Storage written = written_over(read.value)) return written;
  // All arguments over a written value must share its clone, whichever comes first.
  if (op_writes) {
    for (const Read& other : op.reads) {
      if (other.value == read.value && is_written(other)) {
        written_.emplace_back(read.value, own_memory(op, other));
        return written_.back().second;
      }
    }
  }
  const Value& value = tape_.values()[read.value];
  c10::Storage input = value.temporary ? value.temporary : from_tape(op, read);
  if (op.stream()) hand_over(tape_, read.value, input, *op.stream());
  return input;
}

at::Tensor SweepInputs::tensor(const Op& op, const Read& read) {
  return read.geometry->over(storage(op, read));
}

torch::jit::Stack SweepInputs::arguments(const Op& op) {
  torch::jit::Stack stack;
  stack.reserve(op.traits->num_arguments());
  stack.resize(op.first_argument());
  for (const auto& argument : op.arguments) {
    // Lists are shared by reference, so each replay fills one of its own.
    stack.push_back(with_own_lists(argument));
  }
  const bool op_writes = writes(op);  // a list may have thousands of tensors
  for (const Read& read : op.reads) {
    if (read.argument < 0) continue;
    at::Tensor input = read.geometry->over(storage(op, read, op_writes));
    c10::IValue& slot = stack[read.argument];
    if (read.element < 0) {
      slot = std::move(input);
    } else if (slot.isTensorList()) {
      slot.toTensorList().set(read.element, std::move(input));
    } else {
      slot.toList().set(read.element, std::move(input));
    }
  }
  return stack;
}

c10::Storage SweepInputs::written_over(ValueId id) const {
  for (const auto& [written, storage] : written_) {
    if (written == id) return storage;
  }
  return {};
}

c10::Storage SweepInputs::from_tape(const Op& op, const Read& read) {
  const auto bytes = tape_.values()[read.value].bytes;
  TORCH_CHECK(!read.blind, "GradRecomp: a replay of ", op.name(), " reads ", bytes,
              " bytes whose content is unknown. GradRecomp bug, please report.");
  const bool any_content_will_do = read.scratch || op.traits->ignores_content();
  if (!any_content_will_do) check_unmodified(read, op);
  auto storage = tape_.live_storage(read.value);
  const std::int64_t bytes_now = storage && is_there(read, storage) ? bytes_in(storage) : 0;
  TORCH_CHECK(bytes_now == bytes, "GradRecomp: an input of ", op.name(), " had ", bytes,
              " bytes in the forward pass and has ", bytes_now,
              " now, but a replay needs them. Give its memory back after backward, or keep what ",
              op.name(), " makes by Options::selection.");
  if (!any_content_will_do) {
    check_content(read, op);
    look_on_device(read, op, storage);
  }
  return storage;
}

// Autograd may have saved what the program lent, and not read it in backward.
bool SweepInputs::is_there(const Read& read, const c10::Storage& storage) const {
  const Value& value = tape_.values()[read.value];
  const bool may_be_gone = value.lent && !value.snapshot && storage.device().is_cpu();
  return !may_be_gone || is_readable(storage, *read.geometry);
}

c10::Storage SweepInputs::own_memory(const Op& op, const Read& read) {
  Value& value = tape_.values()[read.value];
  const c10::Storage original = value.temporary ? value.temporary : from_tape(op, read);
  if (op.stream()) hand_over(tape_, read.value, original, *op.stream());
  const bool is_last_use = value.temporary && value.num_uses <= 1 && !read.scratch;
  if (is_last_use) return std::exchange(value.temporary, c10::Storage());
  const StreamScope stream(op.stream());
  return clone(original);
}

void SweepInputs::check_unmodified(const Read& read, const Op& reader) const {
  const Value& value = tape_.values()[read.value];
  if (is_copy(value.hold) || value.snapshot) return;
  if (!tape_.is_modified(read.value, extent_read(reader, read))) return;
  TORCH_CHECK(
      false,
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: an input of ",
      reader.name(), " of ", value.bytes, " bytes is at version ", value.version(),
      "; expected version ", tape_.is_sealed() ? value.sealed_version : value.seen_version,
      " instead. GradRecomp needs it to rematerialize a dropped value. Modify it after "
      "backward, or keep that value.");
}

// Before a replay reads a value that it did not make.
void SweepInputs::check_content(const Read& read, const Op& reader) {
  const Value& value = tape_.values()[read.value];
  const bool shared = value.hold == Hold::source || value.hold == Hold::kept;
  if (!value.has_print || !shared || value.snapshot || tape_.guard() == Guard::off) return;
  const bool fits =
      reads_whole(reader, read)
          ? tape_.contents().fits_in_sweep(read.value, value.storage, sweep_)
          : tape_.contents().fits_in_sweep(read.value, value.storage, *read.geometry, sweep_);
  if (!fits) refuse_overwritten(reader, value.bytes, /*found_late=*/false);
}

// The same of a device, which the host compares later.
void SweepInputs::look_on_device(const Read& read, const Op& reader, const c10::Storage& storage) {
  const Value& value = tape_.values()[read.value];
  if (read.geometry->is_on_cpu() || value.snapshot || is_copy(value.hold)) return;
  tape_.contents().on_devices().look({read.value, &reader}, storage, extent_read(reader, read),
                                     sweep_);
}

}  // namespace gradrecomp::tape
