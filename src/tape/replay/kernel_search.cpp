#include "tape/replay/kernel_search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/aten/stopwatch.h"
#include "tape/dispatch/op_traits.h"
#include "tape/replay/call.h"
#include "tape/replay/warnings.h"
#include "tape/substitutes/patterns.h"
#include "tape/substitutes/pointwise_pass.h"

namespace gradrecomp::tape {

void KernelSearch::note_made(ValueId id, const c10::Storage& made) {
  last_made_ = made;
  if (trial_.first >= 0 && tape_.values()[id].producer == trial_.last) trial_.by_ops = made;
}

/// Looks for kernels. What LibTorch can replay stays so if they fail, as they may on a card that
/// they were not compiled for.
void KernelSearch::try_kernels(OpId id, OpId last, double& seconds) {
  try {
    find_kernels(id, last, seconds);
  } catch (const c10::OutOfMemoryError&) {
    forget_kernels(id);  // in this step, as in verify_op()
    tape_.findings().verification_was_short = true;
  } catch (const std::exception& error) {
    forget_kernels(id);
    const std::string& name = tape_.ops()[id].name();
    if (!first_mention(name)) return;
    TORCH_WARN("GradRecomp replays ", name, " by its call, as its kernel failed: ", text_of(error));
  }
}

void KernelSearch::forget_kernels(OpId id) {
  for (OpId tried = id; tried <= std::max(id, trial_.last); ++tried) {
    Op& op = tape_.ops()[tried];
    if (op.substitute == nullptr || op.substitute->has_call()) op.method = {};
  }
  trial_ = {};
}

void KernelSearch::find_kernels(OpId id, OpId last, double& seconds) {
  const Op& op = tape_.ops()[id];
  if (op.substitute == nullptr) {
    find_step(id, seconds);
  } else if (op.has_open_formula()) {
    find_formula(id, seconds);
  }
  if (trial_.first < 0) begin_trial(id, last, seconds);
}

/// Looks for a formula that has the bits of the call. Notes it with the op, and its seconds.
void KernelSearch::find_formula(OpId id, double& seconds) {
  Op& op = tape_.ops()[id];
  if (!op.dispatch_state->mode().has_usual_floats()) return;
  const int count = op.substitute->num_formulas();
  int& likely = likely_formulas_[op.traits->name_hash];
  for (int i = 0; i < count; ++i) {
    const int formula = (likely + i) % count;
    Stopwatch stopwatch(op.stream());
    at::Tensor made = kernels_.substitute(id, formula, {});
    const double taken = stopwatch.seconds();
    const bool is_equal = same_bits(last_made_, made.storage());
    made.reset();  // before patterns take memory
    if (!is_equal) continue;
    const auto compare = [&] { return fits_patterns(op, formula); };
    if (!pattern_fits_.fits(op, formula, compare)) continue;
    likely = formula;
    op.method.formula = static_cast<std::int8_t>(formula);
    seconds = taken;
    return;
  }
}

// Values of a first step may hide how a formula rounds: weights of 1 or 0, biases and inputs of 0.
// So formula and call are also compared on others, which do not. A few elements may agree by luck,
// so those of small shapes are compared on several patterns.
bool KernelSearch::fits_patterns(Op& op, int formula) {
  const bool is_narrow = op.reads.front().geometry->scalar_type() != c10::ScalarType::Float;
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

int KernelSearch::num_patterns(const Op& op) const {
  constexpr std::int64_t kMost = 16;
  const std::int64_t bytes = tape_.values()[op.results.front().value].bytes;
  return static_cast<int>(std::clamp<std::int64_t>(kPatternSize / bytes, 1, kMost));
}

/// One element for each parameter cancels.
int KernelSearch::num_narrow_patterns(const Op& op) const {
  constexpr std::int64_t kMost = 256;
  constexpr std::int64_t kMostElements = 1 << 18;
  std::int64_t num_parameters = kPatternSize;
  for (const Read& read : op.reads) {
    if (read.argument <= 0) continue;
    num_parameters = std::min(num_parameters, c10::multiply_integers(read.geometry->sizes()));
  }
  const std::int64_t num_elements = tape_.values()[op.results.front().value].bytes / 2;
  const std::int64_t most = std::clamp<std::int64_t>(kMostElements / num_elements, 1, kMost);
  return static_cast<int>(
      std::clamp<std::int64_t>(kPatternSize / std::max<std::int64_t>(num_parameters, 1), 1, most));
}

/// One for each argument that `op` reads.
std::vector<at::Tensor> KernelSearch::patterns_for(Op& op, int phase) {
  const Stack stack = inputs_.arguments(op);
  std::vector<at::Tensor> tensors;
  for (const Read& read : op.reads) {
    if (read.argument < 0) continue;
    const at::Tensor& tensor = stack[read.argument].toTensor();
    const bool is_input = read.argument == 0;
    tensors.push_back(pattern_like(is_input ? sample_of(op, tensor) : tensor, phase));
  }
  return tensors;
}

// A call on the CPU rounds one sample as it rounds all. On devices a library may choose how by how
// many there are.
at::Tensor KernelSearch::sample_of(const Op& op, const at::Tensor& input) {
  constexpr std::int64_t kEnough = 16 * kPatternSize;
  const bool shows_soon = input.scalar_type() == c10::ScalarType::Float;  // 16 bits do not
  const bool is_large = input.is_cpu() && input.numel() > kEnough;
  if (!shows_soon || !is_large || !op.substitute->takes_samples(op)) return input;
  const std::int64_t size = input.numel() / input.size(0);
  return input.narrow(0, 0, (kEnough + size - 1) / size);
}

/// Whether call and formula make the same of `tensors`, to which the call adds what else the
/// formula reads.
bool KernelSearch::fits(Op& op, int formula, std::vector<at::Tensor>& tensors) {
  Stack stack = inputs_.arguments(op);
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
void KernelSearch::find_step(OpId id, double& seconds) {
  Op& op = tape_.ops()[id];
  verify_step(id, /*may_join=*/id > trial_.first && id <= trial_.last);
  if (!op.has_kernel()) return;
  Stopwatch stopwatch(op.stream());
  const c10::Storage made = kernels_.run(id, 0);
  const double taken = stopwatch.seconds();
  if (same_bits(last_made_, made)) {
    seconds = taken;
  } else {
    op.method = {};
  }
}

/// `may_join`: it is in a trial, or about to be, that compares what it makes where it joins.
void KernelSearch::verify_step(OpId id, bool may_join) {
  Op& op = tape_.ops()[id];
  const auto step = op.method.formula < 0 ? step_of(tape_, op) : std::nullopt;
  if (!step) return;
  const auto dtype = kernels::dtype_of(op.reads[step->input].geometry->scalar_type());
  const int count = num_formulas(*step, *dtype);
  for (int formula = 0; formula < count; ++formula) {
    if (!step_fits_patterns(op, *step, formula)) continue;
    // A quotient and a product with the inverse, which other numbers may tell apart.
    const int other_way = (formula + count / 2) % count;
    const bool divides = step->kind == kernels::StepKind::div_scalar;
    if (divides && step_fits_patterns(op, *step, other_way)) return;
    op.method = {.formula = static_cast<std::int8_t>(formula),
                 .joins = may_join && step_after(tape_, id).has_value()};
    return;
  }
}

// In pieces that LibTorch does not divide among threads: nothing else in the program may do that,
// and a child that it forks cannot do it once its parent has.
bool KernelSearch::step_fits_patterns(Op& op, const PointwiseStep& step, int formula) {
  for (std::int64_t first = 0; first < kPatternSize; first += kOnOneThread) {
    if (!step_fits_pattern(op, step, formula, first)) return false;
  }
  return true;
}

// A pointwise op's result for one element does not depend on shapes. Its scalar may change in the
// next step, to one that 16 bits cannot hold, though they may hold this one.
bool KernelSearch::step_fits_pattern(Op& op, PointwiseStep step, int formula, std::int64_t first) {
  const Read& input = op.reads[step.input];
  const BelowRecording below;  // patterns are ours, whatever transforms the program has on
  const auto type = input.geometry->scalar_type();
  const auto options = at::TensorOptions().device(op.stream() ? op.stream()->device() : at::kCPU);
  const at::Tensor x = pattern(kOnOneThread, options.dtype(type), first);
  Stack stack(op.first_argument());
  stack.insert(stack.end(), op.arguments.begin(), op.arguments.end());
  stack[input.argument] = x.clone();
  const bool divides = step.kind == kernels::StepKind::div_scalar;
  const double number = divides ? kPatternDivisor : kPatternNumber;
  at::Tensor operand;
  if (step.operand >= 0) {
    const Read& other = op.reads[step.operand];
    const bool is_number = other.geometry->sizes().empty();
    const auto number_type = other.geometry->scalar_type();
    // float16 holds what bfloat16 does, but for very large and very small numbers: patterns do not
    // tell whether those are rounded before they are added.
    if (is_number && type == at::kHalf && number_type == at::kBFloat16) return false;
    operand = is_number ? pattern_number(*other.geometry, type, number)
                        : pattern(kOnOneThread, options.dtype(number_type), kPatternSize + first);
    stack[other.argument] = operand;
  } else if (step.kind != kernels::StepKind::relu) {
    step.scalar = number;
    stack[1] = step.scalar;
  }
  run_call(op, stack);
  PointwisePass pass(type, op.stream());
  pass.add(step, operand, formula);
  return same_bits(stack.front().toTensor().storage(), pass.run(x.storage()));
}

/// Has kernels do the ops after `id` too, for comparison when they have run one by one.
void KernelSearch::begin_trial(OpId id, OpId last, double seconds) {
  const int count = count_candidates(id, last);
  if (count == 0) return;
  const Op& op = tape_.ops()[id];
  trial_.first = id;
  trial_.last = id + count;
  if (op.has_kernel()) {
    Stopwatch stopwatch(op.stream());
    trial_.by_kernels = kernels_.run(id, count);
    trial_.joined_seconds = std::max(0.0, stopwatch.seconds() - seconds);
  } else {
    trial_.by_kernels = clone(last_made_);
    Stopwatch stopwatch(op.stream());
    kernels_.join(id + 1, count, trial_.by_kernels);
    trial_.joined_seconds = stopwatch.seconds();
  }
}

/// The ops right after `id` that join, one after the other, and read nothing that is yet to come.
int KernelSearch::count_candidates(OpId id, OpId last) {
  int count = 0;
  for (OpId next = id + 1; next < last; ++next, ++count) {
    const auto step = step_after(tape_, next);
    if (!step) break;
    if (step->operand >= 0) {
      const ValueId operand = tape_.ops()[next].reads[step->operand].value;
      const Value& value = tape_.values()[operand];
      if (value.producer >= id || !(value.temporary || tape_.live_storage(operand))) break;
    }
    verify_step(next, /*may_join=*/true);
    if (!tape_.ops()[next].method.joins) break;
  }
  return count;
}

// To compare takes memory, too.
bool KernelSearch::are_found_equal(const c10::Storage& one, const c10::Storage& other) {
  try {
    return same_bits(one, other);
  } catch (const c10::OutOfMemoryError&) {
    tape_.findings().verification_was_short = true;
    return false;
  }
}

void KernelSearch::end_trial_at(OpId id, OpId first, std::vector<ReplayTimes>& times) {
  if (trial_.last != id) return;
  const JoinTrial trial = std::exchange(trial_, {});
  const OpId count = trial.last - trial.first;
  const bool is_equal = trial.by_ops && are_found_equal(trial.by_kernels, trial.by_ops);
  for (OpId joined = trial.first + 1; joined <= trial.last; ++joined) {
    if (is_equal) {
      times[joined - first].joined_seconds = trial.joined_seconds / static_cast<double>(count);
    } else {
      tape_.ops()[joined].method.joins = false;
    }
  }
}

}  // namespace gradrecomp::tape
