#pragma once

#include <string>
#include <vector>

#include "sweep.h"

namespace gradrecomp::tape {

/// Replays a window of ops beside their originals, bit by bit, and times them.
///
/// Values whose replay differs, or whose op cannot be replayed, become sources. For parts of calls
/// it finds the formula of their substitute that has the bits of the call, and tries whether it may
/// do the ops behind it as well.
class Verification final : private Sweep {
 public:
  explicit Verification(Tape& tape) : Sweep(tape) {}

  /// Of the ops [first, last); see Tape::verify().
  std::vector<double> run(OpId first, OpId last);

 private:
  /// What a substitute made of an op and its followers, until the ops have made it one by one.
  struct Trial {
    OpId first = -1;  ///< -1: none is under way
    OpId last = -1;
    c10::Storage by_substitute;
    c10::Storage by_ops;
    double seconds = 0;
  };

  void look_at(const Op& op, ValueId id, const c10::Storage& again,
               const at::Tensor& shown) override;
  [[nodiscard]] Hold hold_of(ValueId /*id*/) const override { return Hold::none; }

  [[nodiscard]] std::vector<ValueId> overwritten_inputs(OpId first, OpId last) const;
  [[nodiscard]] bool can_make(ValueId target) const;
  [[nodiscard]] bool can_run(const Op& op) const;
  double verify_op(OpId id, OpId last);
  bool has_formula(OpId id, const c10::Storage& by_call, double& seconds);
  bool fits_patterns(Op& op, int formula);
  void try_followers(OpId id, OpId last);
  void end_trial(std::vector<double>::iterator seconds);
  void give_up(const Op& op, const char* reason);
  [[nodiscard]] std::string suspects_of(const Op& op, int depth) const;

  Trial trial_;
  int likely_formula_ = 0;  ///< the last that gave equal bits
};

}  // namespace gradrecomp::tape
