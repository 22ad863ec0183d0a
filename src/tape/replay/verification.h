#pragma once

#include <string>
#include <vector>

#include "tape/replay/kernel_search.h"

namespace gradrecomp::tape {

/// Replays a window of ops beside their originals, bit by bit, and times them.
///
/// Values whose replay differs, or whose op cannot be replayed, become sources. Where asked to, it
/// has kernels found, too.
class Verification final : private KernelSearch {
 public:
  Verification(Tape& tape, bool finds_kernels, PatternFits& pattern_fits)
      : KernelSearch(tape, pattern_fits), finds_kernels_(finds_kernels) {}

  /// Verifies the ops [first, last) and returns their times.
  std::vector<ReplayTimes> run(OpId first, OpId last);

 private:
  void look_at(const Op& op, ValueId id, const c10::Storage& again,
               const at::Tensor& shown) override;
  [[nodiscard]] Hold hold_of(ValueId /*id*/) const override { return Hold::none; }

  [[nodiscard]] std::vector<ValueId> overwritten_inputs(OpId first, OpId last) const;
  [[nodiscard]] bool can_make(ValueId target) const;
  [[nodiscard]] bool can_run(const Op& op) const;
  ReplayTimes verify_op(OpId id, OpId last);
  double replay(OpId id, Stack& stack);
  double seconds_after_work(Op& op);
  void give_up(const Op& op, const std::string& reason = {});
  [[nodiscard]] std::string suspects_of(const Op& op, int depth) const;

  bool finds_kernels_;
};

/// Runs the ops [first, last) once on the originals, where their replays will run, and compares
/// what they make with the originals that still live, bit by bit; values that differ become
/// sources. Where `finds_kernels`, also looks for kernels that make the same bits for less;
/// `pattern_fits` is what that has found in the step so far.
std::vector<ReplayTimes> verify(Tape& tape, OpId first, OpId last, bool finds_kernels,
                                PatternFits& pattern_fits);

}  // namespace gradrecomp::tape
