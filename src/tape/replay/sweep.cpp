#include "tape/replay/sweep.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/aten/lent_memory.h"
#include "tape/aten/range.h"
#include "tape/aten/stopwatch.h"
#include "tape/aten/stream_scope.h"
#include "tape/contents.h"
#include "tape/dispatch/op_traits.h"
#include "tape/own_work.h"
#include "tape/replay/call.h"
#include "tape/substitutes/packed_form.h"

namespace gradrecomp::tape {
namespace {

// Kernels may choose by it, as matmul's does where it is called below autograd.
void require_gradients(const Op& op, torch::jit::Stack& stack) {
  for (const Read& read : op.reads) {
    if (!read.requires_grad || read.argument < 0 || read.written || read.scratch) continue;
    c10::IValue& slot = stack[read.argument];
    const at::Tensor input =
        read.element < 0 ? slot.toTensor() : slot.toListRef()[read.element].toTensor();
    input.set_requires_grad(true);
  }
}

}  // namespace

Sweep::Sweep(Tape& tape)
    : tape_(tape),
      number_(++tape.backward().num_sweeps),
      inputs_(tape, number_),
      kernels_(tape, inputs_) {}

Sweep::~Sweep() {
  tape_.contents().on_devices().give_up();
  for (const ValueId id : visited_) {
    tape_.values()[id].temporary = c10::Storage();
    tape_.values()[id].num_uses = 0;
  }
}

c10::Storage Sweep::run(ValueId target) {
  const OwnWork own_work;
  Stopwatch stopwatch;  // of the host: waiting for a device here would stall backward
  target_ = target;
  plan_ = tape_.sweep_plan(target);
  collect({target});
  const Range range("GradRecomp: replay up to " + tape_.ops()[ops_.back()].name());
  for (std::size_t position = 0; position < ops_.size();) position += execute(position);
  tape_.contents().on_devices().hash_looked_at();
  tape_.counts().replayed_ops += static_cast<std::int64_t>(ops_.size());
  tape_.counts().replay_seconds += stopwatch.seconds();
  const Value& value = tape_.values()[target];
  c10::Storage made = value.hold == Hold::none ? value.temporary : value.storage;
  TORCH_CHECK(made, "GradRecomp: a replay did not make its value. GradRecomp bug, please report.");
  return made;
}

// Depth first from the targets down to live values, with an explicit stack: chains may be long.
void Sweep::collect(const std::vector<ValueId>& targets) {
  std::vector<ValueId> pending;
  for (const ValueId target : targets) visit(target, pending);
  while (!pending.empty()) {
    const OpId id = tape_.values()[pending.back()].producer;
    pending.pop_back();
    Op& op = tape_.ops()[id];
    if (op.sweep == number_) continue;
    op.sweep = number_;
    ops_.push_back(id);
    for_each_input(op, [&](ValueId input) { visit(input, pending); });
  }
  std::sort(ops_.begin(), ops_.end());
  for (const OpId id : ops_) {
    for_each_input(tape_.ops()[id], [&](ValueId input) { ++tape_.values()[input].num_uses; });
  }
}

void Sweep::visit(ValueId id, std::vector<ValueId>& pending) {
  Value& value = tape_.values()[id];
  if (value.sweep == number_) return;
  value.sweep = number_;
  visited_.push_back(id);
  look_for_stale(id);
  forget_copy_if_written(id);
  if (auto storage = tape_.live_storage(id)) {
    if (value.hold == Hold::none) borrowed_.push_back(std::move(storage));
    return;
  }
  if (value.hold == Hold::away) {
    tape_.bring_back(id);
    return;
  }
  const bool can_replay = value.producer >= 0 && tape_.ops()[value.producer].can_replay();
  if (!can_replay) refuse(id);
  pending.push_back(id);
}

// The program may still hold a value that is dropped or away, and have written to it unseen.
void Sweep::look_for_stale(ValueId id) {
  Value& value = tape_.values()[id];
  const bool has_another = value.hold == Hold::none || value.hold == Hold::away;
  if (!has_another || !value.has_print) return;
  const auto storage = tape_.live_storage(id);
  if (storage && !tape_.contents().fits_in_sweep(id, storage, number_)) value.stale = true;
}

// A node of the graph may write onto what backward gives it.
void Sweep::forget_copy_if_written(ValueId id) {
  const Value& value = tape_.values()[id];
  if (!is_copy(value.hold) || !value.version_counter.enabled()) return;
  if (value.version() != value.copy_version) tape_.forget_copy(id);
}

// Only what was written, freed or lent unseen can be missing here, or whose operator is gone.
void Sweep::refuse(ValueId id) const {
  const Value& value = tape_.values()[id];
  const Op* producer = value.producer < 0 ? nullptr : &tape_.ops()[value.producer];
  TORCH_CHECK(producer == nullptr || !producer->traits->has_departed, "GradRecomp: a replay needs ",
              value.bytes, " bytes, made by ", producer->name(),
              ", but the library of that operator was unloaded. Unload it after backward, or keep "
              "what it makes by Options::selection.");
  const std::string maker =
      value.producer < 0 ? "" : ", made by " + tape_.ops()[value.producer].name();
  TORCH_CHECK(
      false, "GradRecomp: a replay needs ", value.bytes, " bytes", maker,
      ", but they, or what they are made from, were overwritten by another thread or without the "
      "dispatcher's knowledge, or their memory may have been freed. Call gradrecomp::note_write() "
      "before such a write, or pass a clone into the region.");
}

/// Replays an op and those after it that join. Returns their number.
std::size_t Sweep::execute(std::size_t position) {
  const OpId id = ops_[position];
  const NumericScope mode(tape_.ops()[id].dispatch_state->mode(), current_mode_);
  const int num_joined = count_joined(position);
  const bool has_kernel = tape_.ops()[id].has_kernel();
  c10::Storage made;
  if (has_kernel) {
    made = kernels_.run(id, num_joined);
  } else {
    execute_call(tape_.ops()[id]);
    if (num_joined == 0) return 1;
    made = std::exchange(tape_.values()[tape_.ops()[id].results.front().value].temporary, {});
    kernels_.join(id + 1, num_joined, made);
  }
  settle_value(tape_.ops()[id + num_joined], 0, std::move(made));
  for (int i = has_kernel ? 0 : 1; i <= num_joined; ++i) finish_inputs(tape_.ops()[id + i]);
  tape_.counts().substituted_ops += num_joined + (has_kernel ? 1 : 0);
  return 1 + static_cast<std::size_t>(num_joined);
}

int Sweep::count_joined(std::size_t position) const {
  int count = 0;
  while (joins_in(position + count + 1)) ++count;
  return count;
}

/// Whether what the op right before makes in this sweep is there for that at `position` alone.
bool Sweep::joins_in(std::size_t position) const {
  if (position >= ops_.size() || !tape_.ops()[ops_[position]].method.joins) return false;
  const OpId before = ops_[position] - 1;
  if (ops_[position - 1] != before) return false;
  const ValueId between = tape_.ops()[before].results.front().value;
  return tape_.values()[between].num_uses == 1 && hold_of(between) == Hold::none;
}

void Sweep::execute_call(Op& op) {
  Stack stack;
  call(op, stack);
  settle(op, stack);
  stack.clear();
  inputs_.op_ends();
  finish_inputs(op);
}

void Sweep::call(Op& op, Stack& stack) {
  stack = inputs_.arguments(op);
  require_gradients(op, stack);
  run_call(op, stack);
}

void Sweep::settle(const Op& op, const Stack& returns) {
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    const Result& result = op.results[i];
    c10::Storage storage;
    at::Tensor tensor;
    if (result.read >= 0) {
      storage = inputs_.written_over(op.reads[result.read].value);
    } else {
      const auto& returned = returns[result.output];
      tensor =
          result.element < 0 ? returned.toTensor() : returned.toTensorList().get(result.element);
      if (result.packed) tensor = packed(op, tensor);
      storage = own_storage(op, tensor, returns);
    }
    look_at(op, result.value, storage, tensor);
    settle_value(op, i, std::move(storage));
  }
}

/// Replays may only write to memory that they alone own. The owners of `tensor` itself are the
/// stack `returned` and the caller.
c10::Storage Sweep::own_storage(const Op& op, const at::Tensor& tensor, const Stack& returned) {
  c10::Storage storage = tensor.storage();
  const bool may_be_kept = op.traits->foreign && !op.packed_form;
  const bool is_shared = may_be_kept && is_held_elsewhere(tensor, returned, 1);
  if (!is_shared && !is_lent(*storage.unsafeGetStorageImpl())) return storage;
  const StreamScope stream(op.stream());
  return clone(storage);
}

at::Tensor Sweep::packed(const Op& op, const at::Tensor& output) {
  const BelowRecording below;
  const StreamScope stream(op.stream());
  return op.packed_form->pack(output);
}

void Sweep::settle_value(const Op& op, std::size_t position, c10::Storage storage) {
  const ValueId id = op.results[position].value;
  TORCH_CHECK(static_cast<std::int64_t>(storage.nbytes()) == tape_.values()[id].bytes,
              "GradRecomp: a replay of ", op.name(), " made ", storage.nbytes(),
              " bytes, but must make ", tape_.values()[id].bytes, " as in the forward pass. ",
              op.traits->foreign ? "Its operator allocates as it likes: keep what it makes by "
                                   "Options::selection."
                                 : "Keep its outputs or report a GradRecomp bug.");
  keep_result(id, std::move(storage));
}

void Sweep::keep_result(ValueId id, c10::Storage storage) {
  Value& value = tape_.values()[id];
  if (tape_.live_storage(id) || value.hold == Hold::away) return;
  if (const Hold kind = hold_of(id); kind != Hold::none) {
    tape_.hold(id, kind, std::move(storage));
  } else if (value.num_uses > 0 || id == target_) {
    value.temporary = std::move(storage);
    if (value.sweep != number_) {
      value.sweep = number_;
      visited_.push_back(id);
    }
  }
}

/// Whether an op that is not in this sweep will want `value`, too, which has no handles, and no
/// plan has seen to that. A chain of which each value has such a reader, as the state of a
/// recurrent network may have, would be gone through anew for each.
bool Sweep::is_wanted_beside(const Value& value) const {
  const bool follows_plan =
      plan_ != nullptr || tape_.plan_name() != nullptr || tape_.observer() != nullptr;
  if (follows_plan || value.num_handles > 0 || value.overwritten_by >= 0) return false;
  return value.num_wanted > value.num_uses;
}

Hold Sweep::hold_of(ValueId id) const {
  const Value& value = tape_.values()[id];
  if (is_wanted_beside(value)) return Hold::listed;
  const bool is_listed = plan_ != nullptr && std::ranges::binary_search(plan_->cached, id);
  if (is_listed && value.num_wanted > 0 && value.overwritten_by < 0) return Hold::listed;
  const bool by_handles = plan_ == nullptr || id == target_;
  return by_handles && value.num_handles > 0 ? Hold::cached : Hold::none;
}

void Sweep::finish_inputs(const Op& op) {
  for_each_input(op, [&](ValueId id) {
    Value& value = tape_.values()[id];
    if (--value.num_uses == 0 && id != target_) value.temporary = c10::Storage();
  });
}

}  // namespace gradrecomp::tape
