#include "tape/replay/verification.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/aten/stopwatch.h"
#include "tape/dispatch/op_traits.h"
#include "tape/own_work.h"
#include "tape/replay/replay_thread.h"
#include "tape/replay/warnings.h"

namespace gradrecomp::tape {
namespace {

// A kernel may leave rubbish in memory that its output does not show, as a reduction that shrinks
// its output does.
bool same_bits_shown(const c10::Storage& original, const at::Tensor& again) {
  if (!again.defined() || static_cast<std::int64_t>(again.nbytes()) >= bytes_in(original))
    return false;
  const BelowRecording below;
  const auto packed = [](const at::Tensor& tensor) {
    return tensor.clone(at::MemoryFormat::Contiguous).storage();
  };
  return same_bits(packed(Geometry(again).over(original)), packed(again));
}

/// Results that backward receives but does not read whole: seeds that attention without dropout
/// leaves unset, workspaces with gaps. Differences in them do not matter.
bool is_scratch(const Op& op, const Value& value) {
  constexpr std::int64_t kMostSeedBytes = 64;
  static const std::unordered_set<std::string_view> with_workspaces = {
      "aten::_ctc_loss", "aten::_cudnn_ctc_loss", "aten::_cudnn_rnn", "aten::miopen_rnn",
      "aten::mkldnn_rnn_layer"};
  const bool is_seed = op.traits->seeded && value.bytes <= kMostSeedBytes;
  return is_seed || with_workspaces.contains(op.name());
}

constexpr double kShortSeconds = 100e-6;

}  // namespace

std::vector<ReplayTimes> Verification::run(OpId first, OpId last) {
  const OwnWork own_work;
  collect(overwritten_inputs(first, last));
  std::vector<ReplayTimes> times(last - first);
  for (OpId id = first; id < last; ++id) {
    for_each_input(tape_.ops()[id], [&](ValueId input) {
      ++tape_.values()[input].num_uses;
      visited_.push_back(input);
    });
  }
  for (const OpId id : ops_) verify_op(id, id + 1);  // of earlier windows, without what follows
  for (OpId id = first; id < last; ++id) {
    times[id - first] = verify_op(id, last);
    end_trial_at(id, first, times);
  }
  return times;
}

// The values that ops from `first` on read, but that were made before them and overwritten by one
// of them.
std::vector<ValueId> Verification::overwritten_inputs(OpId first, OpId last) const {
  std::vector<ValueId> overwritten;
  for (OpId id = first; id < last; ++id) {
    for_each_input(tape_.ops()[id], [&](ValueId input) {
      const Value& value = tape_.values()[input];
      const bool made_before = value.producer >= 0 && value.producer < first;
      if (made_before && !tape_.live_storage(input) && can_make(input)) {
        overwritten.push_back(input);
      }
    });
  }
  return overwritten;
}

// Whether `target` follows from live values by replayable ops alone.
bool Verification::can_make(ValueId target) const {
  std::vector<ValueId> pending = {target};
  std::unordered_set<ValueId> seen;
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (!seen.insert(id).second || tape_.live_storage(id)) continue;
    const OpId producer = tape_.values()[id].producer;
    if (producer < 0 || !tape_.ops()[producer].can_replay()) return false;
    if (std::ranges::any_of(tape_.ops()[producer].reads, &Read::blind)) return false;
    for_each_input(tape_.ops()[producer], [&](ValueId input) { pending.push_back(input); });
  }
  return true;
}

bool Verification::can_run(const Op& op) const {
  return op.can_replay() && std::ranges::all_of(op.reads, [&](const Read& read) {
           const Value& value = tape_.values()[read.value];
           if (read.blind) return false;
           if (value.temporary) return true;
           const auto storage = tape_.live_storage(read.value);
           return storage && bytes_in(storage) == value.bytes && !tape_.may_vanish(op, read);
         });
}

ReplayTimes Verification::verify_op(OpId id, OpId last) {
  Op& op = tape_.ops()[id];
  const NumericScope mode(op.dispatch_state->mode(), current_mode_);
  double seconds = 0;
  if (!can_run(op)) {
    give_up(op);
  } else {
    try {
      Stack stack;
      seconds = replay(id, stack);
      settle(op, stack);
      stack.clear();  // it may be large, and so may what kernels make
      if (finds_kernels_) try_kernels(id, last, seconds);
    } catch (const c10::OutOfMemoryError&) {
      give_up(op);  // in this step: another may have the memory
      tape_.findings().verification_was_short = true;
    } catch (const std::exception& error) {
      give_up(op, text_of(error));
    }
  }
  op_ends();
  inputs_.op_ends();
  finish_inputs(op);
  return {seconds, seconds};
}

double Verification::replay(OpId id, Stack& stack) {
  Op& op = tape_.ops()[id];
  Stopwatch stopwatch(op.stream());
  if (op.substitute != nullptr && !op.has_open_formula()) {
    stack.emplace_back(kernels_.substitute(id, op.method.formula, {}));
    return stopwatch.seconds();
  }
  call(op, stack);
  const double seconds = stopwatch.seconds();
  const bool is_short = op.stream() && seconds < kShortSeconds;
  // It cannot read again what it has overwritten.
  const bool writes =
      std::ranges::any_of(op.reads, [](const Read& read) { return read.written || read.scratch; });
  return is_short && !writes ? std::min(seconds, seconds_after_work(op)) : seconds;
}

/// The seconds of a call that a device gets while it is busy, as in backward. Alone, a short one
/// takes as long as it takes to reach the device, and the first of its kind until its code is
/// there.
double Verification::seconds_after_work(Op& op) {
  Stack ahead;
  call(op, ahead);
  Stopwatch stopwatch(op.stream());
  Stack stack;
  call(op, stack);
  return stopwatch.seconds();
}

void Verification::give_up(const Op& op, const std::string& reason) {
  for (const Result& result : op.results) tape_.make_source(result.value);
  if (!reason.empty() && first_mention(op.name())) {
    TORCH_WARN("GradRecomp keeps the outputs of ", op.name(), ": replaying it failed: ", reason);
  }
}

void Verification::look_at(const Op& op, ValueId id, const c10::Storage& again,
                           const at::Tensor& shown) {
  note_made(id, again);
  const Value& value = tape_.values()[id];
  const auto original = tape_.live_storage(id);
  if (!original || value.uninitialized || value.must_keep) return;
  if (same_bits(original, again)) return note_made(id, original);  // so the copy may go
  if (same_bits_shown(original, shown)) return;
  tape_.make_source(id);
  if (is_scratch(op, value)) return;
  constexpr int kDepth = 4;
  const std::string suspects = suspects_of(op, kDepth);
  if (!first_mention(suspects)) return;
  TORCH_WARN(
      "GradRecomp keeps an output of ", op.name(), " (", value.bytes, " bytes): replaying ",
      suspects, " gave different bits from the forward pass. One of ",
      "these ops is nondeterministic, or something outside the dispatcher wrote to its output.");
}

// The op itself and, where its inputs had died and so could not be compared, the ops before them.
std::string Verification::suspects_of(const Op& op, int depth) const {
  std::string names = op.name();
  for_each_input(op, [&](ValueId input) {
    const Value& value = tape_.values()[input];
    if (depth == 0 || value.producer < 0 || tape_.live_storage(input)) return;
    names = suspects_of(tape_.ops()[value.producer], depth - 1) + ", " + names;
  });
  return names;
}

std::vector<ReplayTimes> verify(Tape& tape, OpId first, OpId last, bool finds_kernels,
                                PatternFits& pattern_fits) {
  const auto& ops = tape.ops();
  const auto on_device = std::find_if(ops.begin() + first, ops.begin() + last,
                                      [](const Op& op) { return op.stream().has_value(); });
  const bool is_on_cpu = on_device == ops.begin() + last;
  std::vector<ReplayTimes> times;
  run_where_replays_run(is_on_cpu ? c10::Device(c10::kCPU) : on_device->stream()->device(), [&] {
    Verification verification(tape, finds_kernels, pattern_fits);
    times = verification.run(first, last);
  });
  return times;
}

}  // namespace gradrecomp::tape
