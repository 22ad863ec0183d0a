#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tape/replay/sweep.h"
#include "tape/substitutes/pattern_fits.h"

namespace gradrecomp::tape {

/// A sweep over ops in their order that finds kernels which make the same bits: formulas of
/// substitutes for parts of calls, and steps of pointwise ops, which may join the op before them.
///
/// What it finds it notes with the ops (Op::method). Ops that may join are tried together with the
/// op before them, and compared when they have run one by one.
class KernelSearch : protected Sweep {
 protected:
  /// Notes in `pattern_fits` how formulas compare, which another search of the step may know.
  KernelSearch(Tape& tape, PatternFits& pattern_fits) : Sweep(tape), pattern_fits_(pattern_fits) {}

  /// Looks for kernels for an op that has just run, among the ops up to `last`. Where one replays
  /// it, `seconds` becomes what that takes.
  void try_kernels(OpId id, OpId last, double& seconds);
  /// Notes what an op has just made.
  void note_made(ValueId id, const c10::Storage& made);
  /// Call it when `id` has run.
  void op_ends() { last_made_ = c10::Storage(); }
  /// Where a trial ends with `id`, compares what kernels and ops have made in it, and adds what the
  /// joined ones take to `times`, which are of the ops from `first` on.
  void end_trial_at(OpId id, OpId first, std::vector<ReplayTimes>& times);

 private:
  /// What kernels made of an op and those that join it, until the ops have made it one by one.
  struct JoinTrial {
    OpId first = -1;  ///< -1: no trial is running
    OpId last = -1;
    c10::Storage by_kernels;
    c10::Storage by_ops;
    double joined_seconds = 0;  ///< of all ops but the first
  };

  void forget_kernels(OpId id);
  void find_kernels(OpId id, OpId last, double& seconds);
  void find_formula(OpId id, double& seconds);
  bool fits_patterns(Op& op, int formula);
  [[nodiscard]] int num_patterns(const Op& op) const;
  [[nodiscard]] int num_narrow_patterns(const Op& op) const;
  std::vector<at::Tensor> patterns_for(Op& op, int phase);
  static at::Tensor sample_of(const Op& op, const at::Tensor& input);
  bool fits(Op& op, int formula, std::vector<at::Tensor>& tensors);
  void find_step(OpId id, double& seconds);
  void verify_step(OpId id, bool may_join);
  bool step_fits_patterns(Op& op, const PointwiseStep& step, int formula);
  bool step_fits_pattern(Op& op, PointwiseStep step, int formula, std::int64_t first);
  void begin_trial(OpId id, OpId last, double seconds);
  int count_candidates(OpId id, OpId last);
  [[nodiscard]] bool are_found_equal(const c10::Storage& one, const c10::Storage& other);

  PatternFits& pattern_fits_;
  JoinTrial trial_;
  c10::Storage last_made_;  ///< by the current op
  /// By operator, the last that gave equal bits.
  std::unordered_map<std::uint64_t, int> likely_formulas_;
};

}  // namespace gradrecomp::tape
