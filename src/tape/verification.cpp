#include "verification.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "bytes.h"
#include "gradrecomp/tape/observer.h"
#include "stopwatch.h"
#include "unseen.h"

namespace gradrecomp::tape {
namespace {

// A region in every step, or a thousand regions, need not repeat what is known of an op.
bool first_mention(const std::string& names) {
  static std::mutex mutex;
  static std::unordered_set<std::string> mentioned;
  const std::lock_guard lock(mutex);
  return mentioned.insert(names).second;
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

/// Numbers from -1 to 1 of no simple relation, in the shape of `like`. Draws from no generator.
at::Tensor pattern_like(const at::Tensor& like) {
  const Unseen unseen;
  constexpr double kStep = 0.7548776662466927;
  const auto numbers =
      at::arange(like.numel(), like.options().dtype(at::kFloat)).mul_(kStep).sin_();
  auto pattern = at::empty_strided(like.sizes(), like.strides(), like.options());
  return pattern.copy_(numbers.view(like.sizes()));
}

}  // namespace

std::vector<double> Verification::run(OpId first, OpId last) {
  const OwnWork own_work;
  collect(overwritten_inputs(first, last));
  std::vector<double> seconds(last - first, 0.0);
  for (OpId id = first; id < last; ++id) {
    for_each_input(tape_.ops_[id], [&](ValueId input) {
      ++tape_.values_[input].num_uses;
      visited_.push_back(input);
    });
  }
  for (const OpId id : ops_) verify_op(id, id + 1);  // of earlier windows, without what follows
  for (OpId id = first; id < last; ++id) {
    seconds[id - first] = verify_op(id, last);
    if (trial_.last == id) end_trial(seconds.begin() + (trial_.first - first));
  }
  return seconds;
}

// What ops from `first` on read, though it was made before them and one of them wrote over it.
std::vector<ValueId> Verification::overwritten_inputs(OpId first, OpId last) const {
  std::vector<ValueId> overwritten;
  for (OpId id = first; id < last; ++id) {
    for_each_input(tape_.ops_[id], [&](ValueId input) {
      const Value& value = tape_.values_[input];
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
    const OpId producer = tape_.values_[id].producer;
    if (producer < 0 || !tape_.ops_[producer].replayable) return false;
    for_each_input(tape_.ops_[producer], [&](ValueId input) { pending.push_back(input); });
  }
  return true;
}

bool Verification::can_run(const Op& op) const {
  return op.replayable && std::all_of(op.reads.begin(), op.reads.end(), [&](const Read& read) {
           return tape_.values_[read.value].temporary || tape_.live_storage(read.value);
         });
}

double Verification::verify_op(OpId id, OpId last) {
  Op& op = tape_.ops_[id];
  double seconds = 0;
  if (!can_run(op)) {
    give_up(op, nullptr);
  } else {
    try {
      Stack stack;
      Stopwatch stopwatch(op.stream);
      if (op.variant.formula < 0) {
        call(op, stack);
      } else {
        stack.emplace_back(substitute(id, op.variant.formula, {}));
      }
      seconds = stopwatch.seconds();
      settle(op, stack);
      const bool found =
          op.has_open_formula() && has_formula(id, stack.front().toTensor().storage(), seconds);
      if (found) try_followers(id, last);
    } catch (const std::exception& error) {
      give_up(op, error.what());
    }
  }
  written_.clear();
  finish_inputs(op);
  return seconds;
}

/// Looks for a formula that has the bits of the call. Notes it with the op, and its seconds.
bool Verification::has_formula(OpId id, const c10::Storage& by_call, double& seconds) {
  Op& op = tape_.ops_[id];
  const int count = op.substitute->num_formulas();
  for (int i = 0; i < count; ++i) {
    const int formula = (likely_formula_ + i) % count;
    Stopwatch stopwatch(op.stream);
    const at::Tensor made = substitute(id, formula, {});
    const double taken = stopwatch.seconds();
    if (!same_bits(by_call, made.storage()) || !fits_patterns(op, formula)) continue;
    likely_formula_ = formula;
    op.variant.formula = static_cast<std::int8_t>(formula);
    seconds = taken;
    return true;
  }
  return false;
}

// Values of a first step may hide how a formula rounds: weights of 1 or 0, biases and inputs of 0.
// So formula and call are also compared on others, which do not.
bool Verification::fits_patterns(Op& op, int formula) {
  Stack stack = rebuild_arguments(op);
  std::vector<at::Tensor> tensors;
  for (const Read& read : op.reads) {
    if (read.argument < 0) continue;
    tensors.push_back(pattern_like(stack[read.argument].toTensor()));
    stack[read.argument] = tensors.back();
  }
  run_call(op, stack);
  // Reads of no argument are what the call returned behind the result, in order.
  for (std::size_t i = 1; tensors.size() < op.reads.size(); ++i) {
    tensors.push_back(stack[i].toTensor());
  }
  const at::Tensor made = run_substitute(op, tensors, formula, {});
  return same_bits(stack.front().toTensor().storage(), made.storage());
}

/// Has the substitute do the ops behind `id` too, for comparison when they have run one by one.
void Verification::try_followers(OpId id, OpId last) {
  if (!tape_.ops_[id].substitute->has_followers()) return;
  const FollowingOps following = following_ops(tape_, id);
  if (following.count == 0 || id + following.count >= last) return;
  if (following.residual >= 0) {
    const ValueId residual = tape_.ops_[id + 1].reads[following.residual].value;
    if (!tape_.values_[residual].temporary && !tape_.live_storage(residual)) return;
  }
  Stopwatch stopwatch(tape_.ops_[id].stream);
  const at::Tensor made = substitute(id, tape_.ops_[id].variant.formula, following);
  const double taken = stopwatch.seconds();
  trial_ = {id, id + following.count, made.storage(), {}, taken};
}

void Verification::end_trial(std::vector<double>::iterator seconds) {
  const Trial trial = std::exchange(trial_, {});
  if (!trial.by_ops || !same_bits(trial.by_substitute, trial.by_ops)) return;
  const OpId count = trial.last - trial.first;
  tape_.ops_[trial.first].variant.num_followers = static_cast<std::int8_t>(count);
  *seconds = trial.seconds;
  // Not 0, which would stand for "not measured".
  std::fill_n(seconds + 1, count, std::numeric_limits<double>::min());
}

void Verification::give_up(const Op& op, const char* reason) {
  for (const Result& result : op.results) tape_.make_source(result.value);
  if (reason != nullptr && first_mention(op.handle.schema().name())) {
    TORCH_WARN("GradRecomp keeps the outputs of ", op.handle.schema().name(),
               ": replaying it failed: ", reason);
  }
}

void Verification::look_at(const Op& op, ValueId id, const c10::Storage& again,
                           const at::Tensor& shown) {
  if (trial_.first >= 0 && tape_.values_[id].producer == trial_.last) trial_.by_ops = again;
  const Value& value = tape_.values_[id];
  const auto original = tape_.live_storage(id);
  if (!original || value.uninitialized || value.must_keep) return;
  if (same_bits(original, again) || same_bits_shown(original, shown)) return;
  tape_.make_source(id);
  constexpr int kDepth = 4;
  const std::string suspects = suspects_of(op, kDepth);
  if (!first_mention(suspects)) return;
  TORCH_WARN("GradRecomp keeps an output of ", op.handle.schema().name(), " (", value.bytes,
             " bytes): replaying ", suspects, " gave other bits than the forward pass. An op of ",
             "these is nondeterministic, or something outside the dispatcher wrote to its output.");
}

// The op itself and, where its inputs had died and so could not be compared, the ops behind them.
std::string Verification::suspects_of(const Op& op, int depth) const {
  std::string names = op.handle.schema().name();
  for_each_input(op, [&](ValueId input) {
    const Value& value = tape_.values_[input];
    if (depth == 0 || value.producer < 0 || tape_.live_storage(input)) return;
    names = suspects_of(tape_.ops_[value.producer], depth - 1) + ", " + names;
  });
  return names;
}

}  // namespace gradrecomp::tape
