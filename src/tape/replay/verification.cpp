#include "tape/replay/verification.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/aten/stopwatch.h"
#include "tape/dispatch/op_traits.h"
#include "tape/observer.h"
#include "tape/replay/replay_thread.h"
#include "tape/substitutes/pointwise_pass.h"

namespace gradrecomp::tape {
namespace {

// A region in every step, or a thousand regions, need not repeat what is known of an op.
bool first_mention(const std::string& names) {
  static std::mutex mutex;
  static std::unordered_set<std::string> mentioned;
  const std::lock_guard lock(mutex);
  return mentioned.insert(names).second;
}

/// What went wrong, without the backtrace that LibTorch adds.
std::string text_of(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

// A kernel may leave rubbish in memory that its output does not show, as a reduction that shrinks
// its output does.
bool same_bits_shown(const c10::Storage& original, const at::Tensor& again) {
  if (!again.defined() || again.nbytes() >= original.nbytes()) return false;
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
  const bool is_seed = traits_of(op.handle).seeded && value.bytes <= kMostSeedBytes;
  return is_seed || with_workspaces.contains(op.handle.schema().name());
}

constexpr double kShortSeconds = 100e-6;

constexpr std::int64_t kPatternSize = 4096;
constexpr double kPatternNumber = 0.7548776662466927;
constexpr std::int64_t kWholePatternNumber = 4099;

/// Numbers from -1 to 1 of no simple relation, -0 first, or others for another `phase`; of flags
/// about half are set. Draws from no generator.
at::Tensor pattern(std::int64_t count, at::TensorOptions options, int phase = 0) {
  const BelowRecording below;
  const double first = static_cast<double>(phase) * static_cast<double>(kPatternSize);
  const auto numbers =
      at::arange(count, options.dtype(at::kFloat)).add_(first).mul_(kPatternNumber).sin_().neg_();
  if (options.dtype() == at::kBool) return numbers.gt(0);
  return numbers.to(options.dtype());
}

/// A tensor of such memory, filled piece by piece: a large one takes little beside itself.
at::Tensor pattern_like(const at::Tensor& like, int phase) {
  constexpr std::int64_t kPiece = 1 << 20;
  const BelowRecording below;
  auto made = at::empty_strided(like.sizes(), like.strides(), like.options());
  const auto size = static_cast<std::int64_t>(made.storage().nbytes() / made.itemsize());
  const auto whole = made.as_strided({size}, {1}, 0);
  for (std::int64_t first = 0; first < size; first += kPiece) {
    const std::int64_t count = std::min(kPiece, size - first);
    const auto phase_here = phase + static_cast<int>(first / kPatternSize);
    whole.narrow(0, first, count).copy_(pattern(count, like.options(), phase_here));
  }
  return made;
}

/// A number of that type that 16 bits do not hold, unless it is one of 8.
at::Tensor pattern_number(const Geometry& geometry) {
  const BelowRecording below;
  const at::Tensor number = at::empty({}, geometry.scalar_type());
  if (c10::isFloatingType(geometry.scalar_type())) {
    number.fill_(kPatternNumber);
  } else {
    number.fill_(number.itemsize() > 1 ? kWholePatternNumber : 1);
  }
  return geometry.over(number.storage());
}

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
    if (trial_.last == id) end_trial(times.begin() + (trial_.first - first));
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
    if (producer < 0 || !tape_.ops()[producer].replayable) return false;
    if (std::ranges::any_of(tape_.ops()[producer].reads, &Read::blind)) return false;
    for_each_input(tape_.ops()[producer], [&](ValueId input) { pending.push_back(input); });
  }
  return true;
}

bool Verification::can_run(const Op& op) const {
  return op.replayable && std::ranges::all_of(op.reads, [&](const Read& read) {
           const Value& value = tape_.values()[read.value];
           if (read.blind) return false;
           if (value.temporary) return true;
           const auto storage = tape_.live_storage(read.value);
           return storage && static_cast<std::int64_t>(storage.nbytes()) == value.bytes &&
                  !tape_.may_vanish(read.value);
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
      if (finds_kernels_) try_kernels(id, last, stack, seconds);
    } catch (const c10::OutOfMemoryError&) {
      give_up(op);  // in this step: another may have the memory
      tape_.note_short_verification();
    } catch (const std::exception& error) {
      give_up(op, text_of(error));
    }
  }
  last_made_ = c10::Storage();
  written_.clear();
  finish_inputs(op);
  return {seconds, seconds};
}

double Verification::replay(OpId id, Stack& stack) {
  Op& op = tape_.ops()[id];
  Stopwatch stopwatch(op.stream);
  if (op.substitute != nullptr && !op.has_open_formula()) {
    stack.emplace_back(substitute(id, op.method.formula, {}));
    return stopwatch.seconds();
  }
  call(op, stack);
  const double seconds = stopwatch.seconds();
  const bool is_short = op.stream && seconds < kShortSeconds;
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
  Stopwatch stopwatch(op.stream);
  Stack stack;
  call(op, stack);
  return stopwatch.seconds();
}

/// Looks for kernels. What LibTorch can replay stays so if they fail, as they may on a card that
/// they were not compiled for.
void Verification::try_kernels(OpId id, OpId last, const Stack& stack, double& seconds) {
  try {
    find_kernels(id, last, stack, seconds);
  } catch (const c10::OutOfMemoryError&) {
    forget_kernels(id);  // in this step, as in verify_op()
    tape_.note_short_verification();
  } catch (const std::exception& error) {
    forget_kernels(id);
    const std::string& name = tape_.ops()[id].handle.schema().name();
    if (!first_mention(name)) return;
    TORCH_WARN("GradRecomp replays ", name, " by its call, as its kernel failed: ", text_of(error));
  }
}

void Verification::forget_kernels(OpId id) {
  for (OpId tried = id; tried <= std::max(id, trial_.last); ++tried) {
    tape_.ops()[tried].method = {};
  }
  trial_ = {};
}

void Verification::find_kernels(OpId id, OpId last, const Stack& stack, double& seconds) {
  const Op& op = tape_.ops()[id];
  if (op.substitute == nullptr) {
    find_step(id, seconds);
  } else if (op.has_open_formula()) {
    find_formula(id, stack.front().toTensor().storage(), seconds);
  }
  if (trial_.first < 0) begin_trial(id, last, seconds);
}

/// Looks for a formula that has the bits of the call. Notes it with the op, and its seconds.
void Verification::find_formula(OpId id, const c10::Storage& by_call, double& seconds) {
  Op& op = tape_.ops()[id];
  if (op.dispatch_state->mode().flushes_denormals) return;
  const int count = op.substitute->num_formulas();
  int& likely = likely_formulas_[traits_of(op.handle).name_hash];
  for (int i = 0; i < count; ++i) {
    const int formula = (likely + i) % count;
    Stopwatch stopwatch(op.stream);
    const at::Tensor made = substitute(id, formula, {});
    const double taken = stopwatch.seconds();
    if (!same_bits(by_call, made.storage()) || !fits_patterns(op, formula)) continue;
    likely = formula;
    op.method.formula = static_cast<std::int8_t>(formula);
    seconds = taken;
    return;
  }
}

// Values of a first step may hide how a formula rounds: weights of 1 or 0, biases and inputs of 0.
// So formula and call are also compared on others, which do not. A few elements may agree by luck,
// so those of small shapes are compared on several patterns.
bool Verification::fits_patterns(Op& op, int formula) {
  const bool is_narrow = op.reads.front().geometry.scalar_type() != c10::ScalarType::Float;
  const int count = is_narrow ? num_narrow_patterns(op) : num_patterns(op);
  for (int phase = 0; phase < count; ++phase) {
    auto tensors = patterns_for(op, phase);
    if (!fits(op, formula, tensors)) return false;
    // Of 16 bits, what formulas differ in is seen once in 100,000 elements, unless all else is
    // gone.
    if (!is_narrow) continue;
    if (!op.substitute->cancel(op, tensors) || !fits(op, formula, tensors)) return false;
  }
  return true;
}

int Verification::num_patterns(const Op& op) const {
  constexpr std::int64_t kMost = 16;
  const std::int64_t bytes = tape_.values()[op.results.front().value].bytes;
  return static_cast<int>(std::clamp<std::int64_t>(kPatternSize / bytes, 1, kMost));
}

/// One element for each parameter cancels.
int Verification::num_narrow_patterns(const Op& op) const {
  constexpr std::int64_t kMost = 256;
  constexpr std::int64_t kMostElements = 1 << 18;
  std::int64_t num_parameters = kPatternSize;
  for (const Read& read : op.reads) {
    if (read.argument <= 0) continue;
    num_parameters = std::min(num_parameters, c10::multiply_integers(read.geometry.sizes()));
  }
  const std::int64_t num_elements = tape_.values()[op.results.front().value].bytes / 2;
  const std::int64_t most = std::clamp<std::int64_t>(kMostElements / num_elements, 1, kMost);
  return static_cast<int>(
      std::clamp<std::int64_t>(kPatternSize / std::max<std::int64_t>(num_parameters, 1), 1, most));
}

/// One for each argument that `op` reads.
std::vector<at::Tensor> Verification::patterns_for(Op& op, int phase) {
  const Stack stack = rebuild_arguments(op);
  std::vector<at::Tensor> tensors;
  for (const Read& read : op.reads) {
    if (read.argument >= 0) tensors.push_back(pattern_like(stack[read.argument].toTensor(), phase));
  }
  return tensors;
}

/// Whether call and formula make the same of `tensors`, to which the call adds what else the
/// formula reads.
bool Verification::fits(Op& op, int formula, std::vector<at::Tensor>& tensors) {
  Stack stack = rebuild_arguments(op);
  std::size_t num_arguments = 0;
  for (const Read& read : op.reads) {
    if (read.argument >= 0) stack[read.argument] = tensors[num_arguments++];
  }
  run_call(op, stack);
  // Reads of no argument are what the call returned after the result, in order.
  tensors.resize(num_arguments);
  for (std::size_t i = 1; tensors.size() < op.reads.size(); ++i) {
    tensors.push_back(stack[i].toTensor());
  }
  const at::Tensor made = run_substitute(op, tensors, formula, {});
  return same_bits(stack.front().toTensor().storage(), made.storage());
}

/// Notes with a pointwise op how a kernel does it and, where that makes a result of its own, the
/// seconds that this takes.
void Verification::find_step(OpId id, double& seconds) {
  Op& op = tape_.ops()[id];
  verify_step(id);
  if (!op.has_kernel()) return;
  Stopwatch stopwatch(op.stream);
  const c10::Storage made = run_kernels(id, 0);
  const double taken = stopwatch.seconds();
  if (same_bits(last_made_, made)) {
    seconds = taken;
  } else {
    op.method = {};
  }
}

void Verification::verify_step(OpId id) {
  Op& op = tape_.ops()[id];
  const auto step = op.method.formula < 0 ? step_of(tape_, op) : std::nullopt;
  if (!step) return;
  const auto dtype = kernels::dtype_of(op.reads[step->input].geometry.scalar_type());
  for (int formula = 0; formula < num_formulas(*step, *dtype); ++formula) {
    if (!step_fits_pattern(op, *step, formula)) continue;
    op.method = {.formula = static_cast<std::int8_t>(formula),
                 .joins = step_behind(tape_, id).has_value()};
    return;
  }
}

// A pointwise op's result for one element does not depend on shapes. Its scalar may change in the
// next step, to one that 16 bits cannot hold, though they may hold this one.
bool Verification::step_fits_pattern(Op& op, PointwiseStep step, int formula) {
  const Read& input = op.reads[step.input];
  const auto type = input.geometry.scalar_type();
  const auto options = at::TensorOptions().device(op.stream ? op.stream->device() : at::kCPU);
  const at::Tensor x = pattern(kPatternSize, options.dtype(type));
  Stack stack(op.arguments);
  stack[input.argument] = x.clone();
  at::Tensor operand;
  if (step.operand >= 0) {
    const Read& other = op.reads[step.operand];
    const bool is_number = other.geometry.sizes().empty();
    operand = is_number ? pattern_number(other.geometry)
                        : pattern(kPatternSize, options.dtype(other.geometry.scalar_type()), 1);
    stack[other.argument] = operand;
  } else if (step.kind != kernels::StepKind::relu) {
    step.scalar = kPatternNumber;
    stack[1] = step.scalar;
  }
  run_call(op, stack);
  PointwisePass pass(type, op.stream);
  pass.add(step, operand, formula);
  return same_bits(stack.front().toTensor().storage(), pass.run(x.storage()));
}

/// Has kernels do the ops after `id` too, for comparison when they have run one by one.
void Verification::begin_trial(OpId id, OpId last, double seconds) {
  const int count = count_candidates(id, last);
  if (count == 0) return;
  const Op& op = tape_.ops()[id];
  trial_.first = id;
  trial_.last = id + count;
  if (op.has_kernel()) {
    Stopwatch stopwatch(op.stream);
    trial_.by_kernels = run_kernels(id, count);
    trial_.joined_seconds = std::max(0.0, stopwatch.seconds() - seconds);
  } else {
    trial_.by_kernels = clone(last_made_);
    Stopwatch stopwatch(op.stream);
    join(id + 1, count, trial_.by_kernels);
    trial_.joined_seconds = stopwatch.seconds();
  }
}

/// The ops right after `id` that join, one after the other, and read nothing that is yet to come.
int Verification::count_candidates(OpId id, OpId last) {
  int count = 0;
  for (OpId next = id + 1; next < last; ++next, ++count) {
    const auto step = step_behind(tape_, next);
    if (!step) break;
    if (step->operand >= 0) {
      const ValueId operand = tape_.ops()[next].reads[step->operand].value;
      const Value& value = tape_.values()[operand];
      if (value.producer >= id || !(value.temporary || tape_.live_storage(operand))) break;
    }
    verify_step(next);
    if (!tape_.ops()[next].method.joins) break;
  }
  return count;
}

// To compare takes memory, too.
bool Verification::are_found_equal(const c10::Storage& one, const c10::Storage& other) {
  try {
    return same_bits(one, other);
  } catch (const c10::OutOfMemoryError&) {
    tape_.note_short_verification();
    return false;
  }
}

void Verification::end_trial(std::vector<ReplayTimes>::iterator times) {
  const Trial trial = std::exchange(trial_, {});
  const OpId count = trial.last - trial.first;
  const bool is_equal = trial.by_ops && are_found_equal(trial.by_kernels, trial.by_ops);
  for (OpId i = 1; i <= count; ++i) {
    if (!is_equal) tape_.ops()[trial.first + i].method.joins = false;
    if (is_equal) times[i].joined_seconds = trial.joined_seconds / static_cast<double>(count);
  }
}

void Verification::give_up(const Op& op, const std::string& reason) {
  for (const Result& result : op.results) tape_.make_source(result.value);
  if (!reason.empty() && first_mention(op.handle.schema().name())) {
    TORCH_WARN("GradRecomp keeps the outputs of ", op.handle.schema().name(),
               ": replaying it failed: ", reason);
  }
}

void Verification::look_at(const Op& op, ValueId id, const c10::Storage& again,
                           const at::Tensor& shown) {
  last_made_ = again;
  if (trial_.first >= 0 && tape_.values()[id].producer == trial_.last) trial_.by_ops = again;
  const Value& value = tape_.values()[id];
  const auto original = tape_.live_storage(id);
  if (!original || value.uninitialized || value.must_keep) return;
  if (same_bits(original, again) || same_bits_shown(original, shown)) return;
  tape_.make_source(id);
  if (is_scratch(op, value)) return;
  constexpr int kDepth = 4;
  const std::string suspects = suspects_of(op, kDepth);
  if (!first_mention(suspects)) return;
  TORCH_WARN(
      "GradRecomp keeps an output of ", op.handle.schema().name(), " (", value.bytes,
      " bytes): replaying ", suspects, " gave different bits from the forward pass. One of ",
      "these ops is nondeterministic, or something outside the dispatcher wrote to its output.");
}

// The op itself and, where its inputs had died and so could not be compared, the ops before them.
std::string Verification::suspects_of(const Op& op, int depth) const {
  std::string names = op.handle.schema().name();
  for_each_input(op, [&](ValueId input) {
    const Value& value = tape_.values()[input];
    if (depth == 0 || value.producer < 0 || tape_.live_storage(input)) return;
    names = suspects_of(tape_.ops()[value.producer], depth - 1) + ", " + names;
  });
  return names;
}

std::vector<ReplayTimes> verify(Tape& tape, OpId first, OpId last, bool finds_kernels) {
  const auto& ops = tape.ops();
  const auto on_device = std::find_if(ops.begin() + first, ops.begin() + last,
                                      [](const Op& op) { return op.stream.has_value(); });
  const bool is_on_cpu = on_device == ops.begin() + last;
  std::vector<ReplayTimes> times;
  run_where_replays_run(is_on_cpu ? c10::Device(c10::kCPU) : on_device->stream->device(),
                        [&] { times = Verification(tape, finds_kernels).run(first, last); });
  return times;
}

}  // namespace gradrecomp::tape
