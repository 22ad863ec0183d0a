#include "tape/record/recorder.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "tape/aten/capture.h"
#include "tape/aten/intercepted_key.h"
#include "tape/aten/stream_scope.h"
#include "tape/calls/arguments.h"
#include "tape/calls/draws.h"
#include "tape/calls/may_differ.h"
#include "tape/dispatch/op_traits.h"
#include "tape/dispatch/plain_memory.h"
#include "tape/dispatch/recording_pause.h"
#include "tape/dispatch/shortage.h"
#include "tape/drafts/buffers.h"
#include "tape/observer.h"
#include "tape/record/recording_engine.h"
#include "tape/substitutes/pointwise_step.h"
#include "tape/writing/split_calls.h"
#include "tape/writing/unseen_write_operator.h"

namespace gradrecomp::tape {
namespace {

thread_local Recorder* current_recorder = nullptr;

/// Where it runs: a tensor of the CPU may be a number beside those of another device.
std::optional<c10::Device> device_of(const Op& op, const Tape& tape) {
  std::optional<c10::Device> device;
  for (const Read& read : op.reads) {
    const auto storage = tape.values()[read.value].owner.lock();
    if (storage && !storage->device().is_cpu()) return storage->device();
    if (storage) device = storage->device();
  }
  for (const auto& argument : op.arguments) {
    if (!argument.isDevice() || (device && argument.toDevice().is_cpu())) continue;
    device = argument.toDevice();  // that it makes something on, or copies to
  }
  return device;
}

}  // namespace

Recorder::Recorder(std::shared_ptr<Tape> tape, RecordingPlan plan, FollowedPlan::Diverged diverged)
    : tape_(std::move(tape)),
      writer_(*tape_),
      reader_(*tape_, writer_),
      finder_(*tape_, writer_),
      unseen_writes_(*tape_, writer_, [this](const at::Tensor& t) { record_unseen_write(t); }),
      argument_copies_(writer_, [this](const auto&... call) { record(call...); }),
      windows_(writer_, unseen_writes_),
      plan_(*tape_, std::move(plan), std::move(diverged)),
      outer_(current_recorder),
      included_((install(), kInterceptedKey)) {
  current_recorder = this;
}

Recorder::~Recorder() { current_recorder = outer_; }

Recorder* Recorder::installed() noexcept { return current_recorder; }

Recorder* Recorder::current() noexcept {
  const bool is_left =
      current_recorder != nullptr && current_recorder->is_left && current_recorder->is_left->load();
  return is_left ? nullptr : current_recorder;
}

ValueId Recorder::save(const at::Tensor& tensor) {
  unseen_writes_.look_at(tensor, false, false);
  const ValueId id = writer_.add_handle(tensor);
  const Value& saved = tape_->values()[id];
  // Backward reads what it has become by then, which cannot be compared once the program lets go.
  if (saved.producer >= 0 && saved.has_print) {
    const Op& producer = tape_->ops()[saved.producer];
    if (is_factory(producer) || fills_alone(producer)) tape_->make_source(id);
  }
  if (in_window_mode()) windows_.hold_saved(id);
  return id;
}

void Recorder::record(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const OpTraits& traits = traits_of(op);
  if (traits.passive || (traits.resizes && !grows(*stack, traits.num_arguments()))) {
    mix_gradients(torch::jit::last(*stack, traits.num_arguments()));
    const std::vector<ValueId> growing = unseen_writes_.values_to_grow(traits, *stack);
    op.redispatchBoxed(keys, stack);
    for (const ValueId value : growing) writer_.expect_bump(value);
    return;
  }
  if (before_op) before_op();
  if (traits.writes_unsaid) return record_suspect(traits, keys, stack);
  record_or_pass_on(traits, keys, stack);
}

void Recorder::record_or_pass_on(const OpTraits& traits, c10::DispatchKeySet keys,
                                 torch::jit::Stack* stack) {
  if (!is_recordable(*stack, traits.num_arguments())) return pass_on(traits, keys, stack);
  unseen_writes_.look_before(traits, *stack);
  record_call(traits, keys, stack);
}

// An operator that returns nothing is there for what it writes, or for what it tells others.
void Recorder::record_suspect(const OpTraits& traits, c10::DispatchKeySet keys,
                              torch::jit::Stack* stack) {
  std::vector<at::Tensor> tensors;
  const auto note = [&](const at::Tensor& part) {
    tensors.push_back(part);
    unseen_writes_.note_content(part);
  };
  for (const c10::IValue& argument : torch::jit::last(*stack, traits.num_arguments())) {
    for_each_tensor(argument,
                    [&](const at::Tensor& tensor, std::int32_t) { for_each_part(tensor, note); });
  }
  const auto look_after = [&] {
    for (const at::Tensor& tensor : tensors) unseen_writes_.look_after(tensor);
  };
  try {
    record_or_pass_on(traits, keys, stack);
  } catch (...) {
    look_after();
    throw;
  }
  look_after();
}

bool Recorder::is_recordable(const torch::jit::Stack& stack, std::size_t num_arguments) {
  const auto arguments = torch::jit::last(stack, num_arguments);
  return dispatches_plainly() && std::ranges::all_of(arguments, holds_plain_tensors);
}

/// See Note [ The door ].
void Recorder::pass_on(const OpTraits& traits, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - traits.num_arguments();
  ++tape_->counts().unrecorded_calls;
  mix_gradients(torch::jit::last(*stack, traits.num_arguments()));
  for (std::size_t i = 0; i < traits.num_arguments(); ++i) {
    const bool writes = traits.writes[i] != 0;
    for_each_tensor((*stack)[first + i], [&](const at::Tensor& tensor, std::int32_t) {
      for_each_part(tensor, [&](const at::Tensor& part) {
        if (writes) return note_written_part(tensor, part);
        if (const ValueId known = tape_->find(part); known >= 0) tape_->make_source(known);
      });
    });
  }
  traits.handle.redispatchBoxed(keys, stack);
  take_in_results(traits, keys, *stack);
}

void Recorder::note_written_part(const at::Tensor& tensor, const at::Tensor& part) {
  if (part.is_same(tensor)) {
    unseen_writes_.note(tensor, UnseenWrites::Content::not_yet_written);
  } else {
    unseen_writes_.note_part(part);
  }
}

/// Puts on the tape what a call that was passed on made in plain memory. Nothing can make it again.
void Recorder::take_in_results(const OpTraits& traits, c10::DispatchKeySet keys,
                               const torch::jit::Stack& stack) {
  const auto returned = torch::jit::last(stack, traits.num_returns);
  const bool makes_values = std::ranges::any_of(returned, [&](const c10::IValue& value) {
    bool is_new = false;
    for_each_tensor(value, [&](const at::Tensor& tensor, std::int32_t) {
      is_new |= is_plain(tensor) && tape_->find(tensor) < 0;
    });
    return is_new;
  });
  if (!makes_values) return;
  writer_.leave();
  Draft draft{.traits = traits, .op = Op(traits, keys)};
  draft.op.dispatch_state = dispatch_state(traits);
  draft.op.replayable = false;
  draft.op.stage = stage_;
  foresee(draft);
  finder_.find_returned(draft, stack);
  const auto id = static_cast<OpId>(tape_->ops().size());
  finish(std::move(draft.op));
  if (Observer* observer = tape_->observer()) observer->took_in(*tape_, id);
}

void Recorder::record_unseen_write(const at::Tensor& tensor) {
  torch::jit::Stack stack = {tensor};
  const RecordingPause unrecorded;
  record_call(traits_of(unseen_write()), keys_below(tensor), &stack);
}

void Recorder::record_call(const OpTraits& traits, c10::DispatchKeySet keys,
                           torch::jit::Stack* stack) {
  Draft draft{.traits = traits, .op = Op(traits, keys)};
  draft.op.dispatch_state = dispatch_state(traits);
  draft.op.replayable = traits.replayable;
  draft.op.stage = stage_;
  argument_copies_.add_to(draft, *stack);
  // The copies are ops, too, after which something may be due. Plans do not know of other calls.
  if (plan_.next_call_makes_op()) writer_.leave();
  reader_.read(draft, *stack);
  const bool is_copy =
      argument_copies_.is_copying() || (traits.copies && copies_buffer(draft.op, *tape_));
  if (is_copy) draft.op.replayable = false;
  look_at_device(draft);
  foresee(draft);
  guard_externals(draft);
  Observer* observer = tape_->observer();
  if (observer) observer->op_begins(*tape_);
  prepare_writes(draft);
  try {
    call(draft, stack);
  } catch (...) {
    // Whatever the op wrote before it failed cannot be made again.
    draft.op.replayable = false;
    draft.has_failed = true;
    finder_.find_written(draft);
    end(draft, nullptr);
    throw;
  }
  finder_.find_returned(draft, *stack);
  finder_.find_written(draft);
  const bool may_read_buffers = draft.op.replayable && writer_.has_written_externals();
  const bool makes_little = may_read_buffers && makes_no_more_than_a_buffer(draft.op, *tape_);
  if (!draft.op.results.empty() && (is_copy || makes_little)) keep_results(draft);
  end(draft, stack);
}

/// Instead of what the call has read.
void Recorder::keep_results(Draft& draft) {
  draft.op.replayable = false;
  for (const Read& read : draft.op.reads) {
    if (!read.scratch && !read.written) writer_.discount_read(read.value);
  }
}

/// Puts the call on the tape, in parts where it has some. `stack` holds what it returned, if it
/// did.
void Recorder::end(Draft& draft, const torch::jit::Stack* stack) {
  const auto first = static_cast<OpId>(tape_->ops().size());
  const bool makes_values = !draft.op.results.empty();
  std::optional<Part> part;
  if (takes_apart_ && stack != nullptr) {
    part = take_part_of(draft, torch::jit::last(*stack, draft.traits.num_returns));
    if (part) plan_.note_part(part->made.defined());
  }
  if (draft.reads_passing_memory) {
    for (const Read& read : draft.op.reads) writer_.let_go_if_passing(read.value);
  }
  if (makes_values) finish(std::move(draft.op));
  if (part) finish(std::move(part->op));
  Observer* observer = tape_->observer();
  if (observer) observer->op_ends(*tape_, makes_values ? first : -1);
}

/// A step must not fail because a kernel of ours does, as it may on a card that it
/// was not compiled for. The step goes on without.
std::optional<Part> Recorder::take_part_of(Draft& draft, c10::ArrayRef<c10::IValue> returned) {
  // Below autograd, and not to be recorded.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::OptionalDeviceGuard on_device(draft.device);
  try {
    return take_part(draft.op, returned, writer_);
  } catch (const c10::Error& error) {
    TORCH_WARN_ONCE("GradRecomp stops using its own kernels, because one failed: ",
                    error.what_without_backtrace());
    takes_apart_ = false;
    return std::nullopt;
  }
}

/// See Note [ Operators that differ on devices ].
void Recorder::look_at_device(Draft& draft) {
  draft.device = device_of(draft.op, *tape_);
  if (!draft.device) return;
  draft.is_fickle = may_differ(draft.traits.fickle, draft.op, *draft.device);
  if (draft.is_fickle) draft.op.replayable = false;
}

void Recorder::guard_externals(Draft& draft) {
  if (draft.traits.ignores_content()) return;
  for (Read& read : draft.op.reads) {
    if (read.written || read.scratch || !tape_->values()[read.value].external) continue;
    const bool guarded = plan_->guards(read.value);
    if (guarded) writer_.print_source(read.value, *read.geometry, draft.traits.reads_beyond);
    read.blind = !guarded && writer_.is_unknown(read.value);
  }
}

// The program may change its mode between any two ops, and take it back. To ask for all of it takes
// longer than all else here.
const DispatchState* Recorder::dispatch_state(const OpTraits& traits) {
  const bool is_known = dispatch_state_ != nullptr && traits.one_kernel &&
                        dispatch_state_->mode().lasts_for_one_kernel();
  if (is_known && dispatch_state_->lasts_without_autocast()) return dispatch_state_;
  const DispatchState now(is_known ? dispatch_state_->mode() : NumericMode::current());
  if (dispatch_state_ == nullptr || *dispatch_state_ != now) dispatch_state_ = tape_->keep(now);
  return dispatch_state_;
}

// Runs before the op, so that a step that leaves its plan does so before it drops by it. Up to here
// values were dropped, and contents passed over, as the plan that is left allowed. For what comes
// now that may not do, so whatever the program still holds is kept.
void Recorder::foresee(const Draft& draft) {
  if (plan_.foresees(draft)) return;
  const bool agrees = plan_.change();
  windows_.begin();
  if (!agrees) windows_.keep_all_so_far();
}

// For calls that are not recorded: their results may take a gradient to its leaf too.
void Recorder::mix_gradients(c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (!argument.isTensor() || !argument.toTensor().requires_grad()) continue;
    const at::Tensor& tensor = argument.toTensor();
    if (is_plain(tensor) && writer_.is_external(tensor)) plan_.note_gradient(has_gradient(tensor));
  }
}

void Recorder::prepare_writes(Draft& draft) {
  if (draft.writes_external || draft.reads_passing_memory) draft.op.replayable = false;
  for (const Read& read : draft.op.reads) {
    if (!read.written) continue;
    writer_.snapshot_before_write(read.value);
    if (in_window_mode()) windows_.prepare_write(read.value);
    const Value& value = tape_->values()[read.value];
    // An op that goes on from a content which cannot be made again cannot be replayed either.
    const bool reads_too = std::ranges::any_of(draft.op.reads, [&](const Read& other) {
      return other.value == read.value && !other.written;
    });
    const bool overwrites = draft.traits.fills && read.geometry->fills(value.bytes) && !reads_too;
    const bool has_maker = value.producer >= 0 && tape_->ops()[value.producer].replayable;
    const bool goes_on = value.uninitialized ? !overwrites || !has_maker : value.must_keep;
    const bool makes_rubbish = draft.traits.resizes && is_rubbish(value);
    const bool adds_rubbish = draft.traits.resizes && !is_rubbish(value);
    if (adds_rubbish || (goes_on && !makes_rubbish && !value.snapshot)) draft.op.replayable = false;
  }
  // Counted after the snapshots: the write itself needs none.
  for (const Read& read : draft.op.reads) {
    if (!read.scratch) writer_.count_read(draft.op, read);
  }
}

void Recorder::call(Draft& draft, torch::jit::Stack* stack) {
  Op& op = draft.op;
  const auto& device = draft.device;
  if (device && !device->is_cpu()) op.kept_stream = tape_->keep(current_stream_of(*device));
  std::unique_lock<std::recursive_mutex> turn;
  if (draft.traits.seeded && is_capturing()) {
    op.replayable = false;
  } else if (draft.traits.seeded) {
    turn = turn_to_draw();  // Note [ Drawing by turns ]
    op.rng = rng_state_of(op, device.value_or(c10::kCPU));
    if (!op.rng) op.replayable = false;
  }
  AlgorithmWatch watch;  // Note [ Algorithms that change for lack of memory ]
  const UntaggedDraws draws(draft.traits, op, device);
  op.handle().redispatchBoxed(op.keys, stack);
  if (draws.may_have_happened()) op.replayable = false;
  if (draft.traits.fickle == Fickle::by_algorithm && watch.has_changed()) op.replayable = false;
  // An operator that is not LibTorch's own may draw from a copy, whose original stays as it is.
  if (op.rng && !draft.traits.has_other_kernel() && op.rng->is_current()) op.rng.reset();
}

void Recorder::finish(Op&& recorded) {
  const bool replayable = recorded.replayable;
  const auto* methods = plan_->methods.get();
  const std::size_t position = tape_->ops().size();
  const bool is_open = recorded.method.formula < 0;
  if (is_open && methods != nullptr && position < methods->size()) {
    recorded.method = still_valid((*methods)[position], *tape_, recorded);
  }
  // A plan drops nothing that is made of what it does not guard; but what an op makes, and whether
  // what it reads comes from outside, may yet differ where the sequence does not.
  const bool reads_blindly = std::ranges::any_of(recorded.reads, &Read::blind);
  const auto op = writer_.add_op(std::move(recorded));
  plan_.note_op();
  for (const Result& result : tape_->ops()[op].results) {
    const bool is_dropped = plan_->retention_of(result.value) == Retention::drop;
    if (!replayable || (reads_blindly && is_dropped)) tape_->make_source(result.value);
    judge(result.value);
    writer_.let_go_if_passing(result.value);
  }
}

void Recorder::judge(ValueId value) {
  switch (plan_->retention_of(value)) {
    case Retention::keep_as_source:
      return tape_->make_source(value);
    case Retention::keep:
      return writer_.keep_as_planned(value);
    case Retention::drop_as_written:
      return unseen_writes_.watch_content(value);
    case Retention::drop:
      return;
  }
}

}  // namespace gradrecomp::tape
