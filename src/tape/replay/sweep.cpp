#include "tape/replay/sweep.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/aten/capture.h"
#include "tape/aten/lent_memory.h"
#include "tape/aten/range.h"
#include "tape/aten/stopwatch.h"
#include "tape/aten/stream_scope.h"
#include "tape/contents.h"
#include "tape/dispatch/op_traits.h"
#include "tape/dispatch/shortage.h"
#include "tape/observer.h"
#include "tape/replay/lending.h"
#include "tape/substitutes/packed_form.h"

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
  if (std::ranges::any_of(returned, shows_pinned_memory)) op.stream->synchronize();
}

}  // namespace

Sweep::Sweep(Tape& tape) : tape_(tape), number_(++tape.backward().num_sweeps) {}

Sweep::~Sweep() {
  for (const ValueId id : visited_) {
    tape_.values()[id].temporary = c10::Storage();
    tape_.values()[id].num_uses = 0;
  }
}

c10::Storage Sweep::run(ValueId target) {
  const OwnWork own_work;
  check_mode();
  Stopwatch stopwatch;  // of the host: waiting for a device here would stall backward
  target_ = target;
  plan_ = tape_.sweep_plan(target);
  collect({target});
  const Range range("GradRecomp: replay up to " + tape_.ops()[ops_.back()].handle.schema().name());
  for (std::size_t position = 0; position < ops_.size();) position += execute(position);
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
  if (value.hold == Hold::offloaded) {
    tape_.bring_back(id);
    return;
  }
  const bool can_replay = value.producer >= 0 && tape_.ops()[value.producer].replayable;
  if (!can_replay) refuse(id);
  pending.push_back(id);
}

// The program may still hold a dropped or offloaded value, and have written to it unseen.
void Sweep::look_for_stale(ValueId id) {
  Value& value = tape_.values()[id];
  const bool has_another = value.hold == Hold::none || value.hold == Hold::offloaded;
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

void Sweep::check_unmodified(ValueId id, const Op& reader) const {
  const Value& value = tape_.values()[id];
  if (is_copy(value.hold) || value.snapshot || !tape_.is_modified(id)) return;
  TORCH_CHECK(
      false,
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: an input of ",
      reader.handle.schema().name(), " of ", value.bytes, " bytes is at version ", value.version(),
      "; expected version ", tape_.is_sealed() ? value.sealed_version : value.seen_version,
      " instead. GradRecomp needs it to rematerialize a dropped value. Modify it after "
      "backward, or keep that value.");
}

// Before a replay reads a value that it did not make.
void Sweep::check_content(const Read& read, const Op& reader) {
  const Value& value = tape_.values()[read.value];
  const bool shared = value.hold == Hold::source || value.hold == Hold::kept;
  if (!value.has_print || !shared || value.snapshot || tape_.guard() == Guard::off) return;
  // A written value keeps all of its content that the write does not reach.
  const bool reads_whole = read.written || traits_of(reader.handle).reads_beyond;
  const bool fits = reads_whole ? tape_.contents().fits_in_sweep(read.value, value.storage, number_)
                                : tape_.contents().fits_in_sweep(read.value, value.storage,
                                                                 *read.geometry, number_);
  TORCH_CHECK(
      fits, "GradRecomp: an input of ", reader.handle.schema().name(), " of ", value.bytes,
      " bytes was overwritten after the forward pass without its version counter growing (by a raw "
      "pointer, x.data(), or a refilled buffer), but a replay needs its old content. Write to it "
      "after backward, give the region a clone of it, or keep what ",
      reader.handle.schema().name(), " makes by Options::selection.");
}

void Sweep::check_mode() const {
  TORCH_CHECK(
      !tape_.findings().mode_is_lost,
      "GradRecomp: a setting that changes kernels' results (float32 precision, deterministic "
      "algorithms, threads, cuDNN, oneDNN, ...) was changed inside the region, but not in "
      "the profiled step, so a replay cannot know under which setting an op ran. Change "
      "it outside, or skip this step: from the next one on, the region checks each op.");
}

// Only what was written, freed or lent unseen can be missing here.
void Sweep::refuse(ValueId id) const {
  const Value& value = tape_.values()[id];
  const std::string maker =
      value.producer < 0 ? "" : ", made by " + tape_.ops()[value.producer].handle.schema().name();
  TORCH_CHECK(
      false, "GradRecomp: a replay needs ", value.bytes, " bytes", maker,
      ", but they were overwritten without the dispatcher's knowledge, or their memory was "
      "freed, after an op had read them. Call gradrecomp::note_write() before such a write, or "
      "use a plan instead of checkpoint(): the first step of a region finds such writes.");
}

/// Replays an op and those after it that join. Returns their number.
std::size_t Sweep::execute(std::size_t position) {
  const OpId id = ops_[position];
  const NumericScope mode(tape_.ops()[id].dispatch_state->mode(), current_mode_);
  const int num_joined = count_joined(position);
  const bool has_kernel = tape_.ops()[id].has_kernel();
  c10::Storage made;
  if (has_kernel) {
    made = run_kernels(id, num_joined);
  } else {
    execute_call(tape_.ops()[id]);
    if (num_joined == 0) return 1;
    made = std::exchange(tape_.values()[tape_.ops()[id].results.front().value].temporary, {});
    join(id + 1, num_joined, made);
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

c10::Storage Sweep::run_kernels(OpId id, int num_joined) {
  const Op& op = tape_.ops()[id];
  if (op.substitute == nullptr) {
    const auto step = step_of(tape_, op);
    return pass_of(id, 1 + num_joined, *step).run(input_storage(op, op.reads[step->input]));
  }
  const Followers followers = followers_of(id, num_joined);
  const at::Tensor made = substitute(id, op.method.formula, followers);
  const int num_done = followers.count();
  join(id + 1 + num_done, num_joined - num_done, made.storage());
  return made.storage();
}

void Sweep::join(OpId first, int count, const c10::Storage& made) {
  if (count > 0) pass_of(first, count, *step_behind(tape_, first)).run_in_place(made);
}

PointwisePass Sweep::pass_of(OpId first, int count, const PointwiseStep& step) {
  const Op& op = tape_.ops()[first];
  PointwisePass pass(op.reads[step.input].geometry->scalar_type(), op.stream);
  pass.add(step, operand_of(op, step), op.method.formula);
  for (OpId id = first + 1; id < first + count; ++id) {
    const Op& next = tape_.ops()[id];
    const auto next_step = step_behind(tape_, id);
    pass.add(*next_step, operand_of(next, *next_step), next.method.formula);
  }
  return pass;
}

at::Tensor Sweep::operand_of(const Op& op, const PointwiseStep& step) {
  if (step.operand < 0) return {};
  const Read& read = op.reads[step.operand];
  return read.geometry->over(input_storage(op, read));
}

Followers Sweep::followers_of(OpId id, int num_joined) {
  Followers followers;
  if (!tape_.ops()[id].substitute->has_followers()) return followers;
  const OpId last = id + num_joined;
  OpId next = id + 1;
  if (next <= last) {
    const auto step = step_behind(tape_, next);
    if (step->kind == kernels::StepKind::add) {
      followers.residual = operand_of(tape_.ops()[next++], *step);
    }
  }
  followers.relu = next <= last && step_behind(tape_, next)->kind == kernels::StepKind::relu;
  return followers;
}

at::Tensor Sweep::substitute(OpId id, int formula, const Followers& followers) {
  const Op& op = tape_.ops()[id];
  std::vector<at::Tensor> tensors;
  for (const Read& read : op.reads) tensors.push_back(read.geometry->over(input_storage(op, read)));
  return run_substitute(op, tensors, formula, followers);
}

at::Tensor Sweep::run_substitute(const Op& op, const std::vector<at::Tensor>& tensors, int formula,
                                 const Followers& followers) {
  const BelowRecording below;
  const StreamScope stream(op.stream);
  return op.substitute->run(op, tensors, formula, followers);
}

void Sweep::execute_call(Op& op) {
  Stack stack;
  call(op, stack);
  settle(op, stack);
  stack.clear();
  written_.clear();
  finish_inputs(op);
}

void Sweep::call(Op& op, Stack& stack) {
  stack = rebuild_arguments(op);
  run_call(op, stack);
}

void Sweep::run_call(Op& op, Stack& stack) {
  const DispatchScope dispatch_scope(*op.dispatch_state);
  const StreamScope stream(op.stream);
  std::optional<RngRestore> rng;
  if (op.rng) rng.emplace(*op.rng);
  AlgorithmWatch watch;  // Note [ Algorithms that change for lack of memory ]
  const Stack alive = gives_references(op.handle.schema()) ? stack : Stack();
  op.handle.redispatchBoxed(op.keys, &stack);
  if (!op.stream) return;  // the CPU's algorithms do not hang on workspaces
  wait_for_host_copies(op, stack);
  if (traits_of(op.handle).fickle != Fickle::by_algorithm || !watch.has_changed()) return;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "GradRecomp: ", op.handle.schema().name(),
                   " found no memory for its workspace in a replay, so it may have switched to "
                   "another algorithm with different bits from the forward pass's. Ask for a lower "
                   "peak, or skip this step: from the next one on, such ops are verified anew.");
}

Sweep::Stack Sweep::rebuild_arguments(Op& op) {
  Stack stack;
  stack.reserve(op.arguments.size());
  for (const auto& argument : op.arguments) {
    // Lists are shared by reference, so each replay fills one of its own.
    if (argument.isTensorList()) {
      stack.emplace_back(argument.toTensorList().copy());
    } else if (argument.isList()) {
      stack.emplace_back(argument.toList().copy());
    } else {
      stack.push_back(argument);
    }
  }
  for (const Read& read : op.reads) {
    if (read.argument < 0) continue;
    auto tensor = read.geometry->over(input_storage(op, read));
    c10::IValue& slot = stack[read.argument];
    if (read.element < 0) {
      slot = std::move(tensor);
    } else if (slot.isTensorList()) {
      slot.toTensorList().set(read.element, std::move(tensor));
    } else {
      slot.toList().set(read.element, std::move(tensor));
    }
  }
  return stack;
}

c10::Storage Sweep::input_storage(const Op& op, const Read& read) {
  for (const auto& [id, storage] : written_) {
    if (id == read.value) return storage;
  }
  // All arguments over a written value must share its clone, whichever comes first.
  for (const Read& other : op.reads) {
    if (other.value == read.value && (other.written || other.scratch)) {
      written_.emplace_back(read.value, written_storage(op, other));
      return written_.back().second;
    }
  }
  const Value& value = tape_.values()[read.value];
  c10::Storage input = value.temporary ? value.temporary : input_from_tape(op, read);
  if (op.stream) lend(tape_, read.value, input, *op.stream);
  return input;
}

c10::Storage Sweep::input_from_tape(const Op& op, const Read& read) {
  const auto bytes = tape_.values()[read.value].bytes;
  TORCH_CHECK(!read.blind, "GradRecomp: a replay of ", op.handle.schema().name(), " reads ", bytes,
              " bytes whose content is unknown. GradRecomp bug, please report.");
  if (!read.scratch) {  // else any content will do
    check_unmodified(read.value, op);
    check_content(read, op);
  }
  auto storage = tape_.live_storage(read.value);
  TORCH_CHECK(storage && static_cast<std::int64_t>(storage.nbytes()) == bytes,
              "GradRecomp: an input of ", op.handle.schema().name(), " had ", bytes,
              " bytes in the forward pass and has ", storage ? storage.nbytes() : 0,
              " now, but a replay needs them. Give its memory back after backward, or keep what ",
              op.handle.schema().name(), " makes by Options::selection.");
  return storage;
}

c10::Storage Sweep::written_storage(const Op& op, const Read& read) {
  Value& value = tape_.values()[read.value];
  const c10::Storage original = value.temporary ? value.temporary : input_from_tape(op, read);
  if (op.stream) lend(tape_, read.value, original, *op.stream);
  const bool is_last_use = value.temporary && value.num_uses <= 1 && !read.scratch;
  if (is_last_use) return std::exchange(value.temporary, c10::Storage());
  const StreamScope stream(op.stream);
  return clone(original);
}

void Sweep::settle(const Op& op, const Stack& returns) {
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    const Result& result = op.results[i];
    c10::Storage storage;
    at::Tensor tensor;
    if (result.read >= 0) {
      const ValueId overwritten = op.reads[result.read].value;
      for (const auto& [id, written] : written_) {
        if (id == overwritten) storage = written;
      }
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
  const bool may_be_kept = traits_of(op.handle).foreign && !op.packed_form;
  const bool is_shared =
      may_be_kept &&
      (tensor.use_count() > 2 ||
       storage.use_count() > 1 + num_owners_in(returned, *storage.unsafeGetStorageImpl()));
  if (!is_shared && !is_lent(*storage.unsafeGetStorageImpl())) return storage;
  const StreamScope stream(op.stream);
  return clone(storage);
}

at::Tensor Sweep::packed(const Op& op, const at::Tensor& output) {
  const BelowRecording below;
  const StreamScope stream(op.stream);
  return op.packed_form->pack(output);
}

void Sweep::settle_value(const Op& op, std::size_t position, c10::Storage storage) {
  const ValueId id = op.results[position].value;
  TORCH_CHECK(static_cast<std::int64_t>(storage.nbytes()) == tape_.values()[id].bytes,
              "GradRecomp: a replay of ", op.handle.schema().name(), " made ", storage.nbytes(),
              " bytes, but must make ", tape_.values()[id].bytes,
              " as in the forward pass. Keep its outputs or report a GradRecomp bug.");
  keep_result(id, std::move(storage));
}

void Sweep::keep_result(ValueId id, c10::Storage storage) {
  Value& value = tape_.values()[id];
  if (tape_.live_storage(id) || value.hold == Hold::offloaded) return;
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

Hold Sweep::hold_of(ValueId id) const {
  const Value& value = tape_.values()[id];
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
