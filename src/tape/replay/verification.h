#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tape/replay/sweep.h"

namespace gradrecomp::tape {

/// Replays a window of ops beside their originals, bit by bit, and times them.
///
/// Values whose replay differs, or whose op cannot be replayed, become sources. Where asked to, it
/// finds kernels that make what ops make: formulas of substitutes for parts of calls, and steps of
/// pointwise ops, which may join the op before them.
class Verification final : private Sweep {
 public:
  Verification(Tape& tape, bool finds_kernels) : Sweep(tape), finds_kernels_(finds_kernels) {}

  /// Verifies the ops [first, last) and returns their times.
  std::vector<ReplayTimes> run(OpId first, OpId last);

 private:
  /// What kernels made of an op and those that join it, until the ops have made it one by one.
  struct Trial {
    OpId first = -1;  ///< -1: no trial is running
    OpId last = -1;
    c10::Storage by_kernels;
    c10::Storage by_ops;
    double joined_seconds = 0;  ///< of all ops but the first
  };

  void look_at(const Op& op, ValueId id, const c10::Storage& again,
               const at::Tensor& shown) override;
  [[nodiscard]] Hold hold_of(ValueId /*id*/) const override { return Hold::none; }

  [[nodiscard]] std::vector<ValueId> overwritten_inputs(OpId first, OpId last) const;
  [[nodiscard]] bool can_make(ValueId target) const;
  [[nodiscard]] bool can_run(const Op& op) const;
  ReplayTimes verify_op(OpId id, OpId last);
  double replay(OpId id, Stack& stack);
  double seconds_after_work(Op& op);
  void try_kernels(OpId id, OpId last, const Stack& stack, double& seconds);
  void forget_kernels(OpId id);
  void find_kernels(OpId id, OpId last, const Stack& stack, double& seconds);
  void find_formula(OpId id, const c10::Storage& by_call, double& seconds);
  bool fits_patterns(Op& op, int formula);
  [[nodiscard]] int num_patterns(const Op& op) const;
  [[nodiscard]] int num_narrow_patterns(const Op& op) const;
  std::vector<at::Tensor> patterns_for(Op& op, int phase);
  bool fits(Op& op, int formula, std::vector<at::Tensor>& tensors);
  void find_step(OpId id, double& seconds);
  void verify_step(OpId id);
  bool step_fits_pattern(Op& op, PointwiseStep step, int formula);
  void begin_trial(OpId id, OpId last, double seconds);
  int count_candidates(OpId id, OpId last);
  [[nodiscard]] bool are_found_equal(const c10::Storage& one, const c10::Storage& other);
  void end_trial(std::vector<ReplayTimes>::iterator times);
  void give_up(const Op& op, const std::string& reason = {});
  [[nodiscard]] std::string suspects_of(const Op& op, int depth) const;

  bool finds_kernels_;
  Trial trial_;
  c10::Storage last_made_;  ///< by the current op
  /// By operator, the last that gave equal bits.
  std::unordered_map<std::uint64_t, int> likely_formulas_;
};

/// Runs the ops [first, last) once on the originals, where their replays will run, and compares
/// what they make with the originals that still live, bit by bit; values that differ become
/// sources. Where `finds_kernels`, also looks for kernels that make the same bits for less.
std::vector<ReplayTimes> verify(Tape& tape, OpId first, OpId last, bool finds_kernels);

}  // namespace gradrecomp::tape
