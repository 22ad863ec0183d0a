#pragma once

#include <string>
#include <vector>

#include "gradrecomp/tape/tape.h"
#include "parts.h"

namespace gradrecomp::tape {

/// One replay sweep: runs the fewest recorded ops that make a value again, in recorded order.
///
/// What it caches is every value with handles, or what the tape's SweepPlan for its target says.
/// The rules here are the ones plan/simulate.cpp mimics; change both or neither.
class Sweep {
 public:
  explicit Sweep(Tape& tape);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  c10::Storage run(ValueId target);
  std::vector<double> verify(OpId first, OpId last);

  /// A copy of the bytes of `storage` on its device.
  static c10::Storage clone(const c10::Storage& storage);

 private:
  using Stack = std::vector<c10::IValue>;

  /// What a substitute made of an op and its followers, until the ops have made it one by one.
  struct Trial {
    OpId first = -1;  ///< -1: none is under way
    OpId last = -1;
    c10::Storage by_substitute;
    c10::Storage by_ops;
    double seconds = 0;
  };

  void collect(const std::vector<ValueId>& targets);
  void visit(ValueId id, std::vector<ValueId>& pending);
  std::size_t execute(std::size_t position);
  void execute_call(Op& op);
  [[nodiscard]] FollowingOps following_in_sweep(std::size_t position) const;
  void call(Op& op, Stack& stack);
  at::Tensor substitute(OpId id, int formula, const FollowingOps& following);
  [[nodiscard]] c10::Storage input_storage(const Op& op, const Read& read);
  [[nodiscard]] c10::Storage written_storage(const Op& op, const Read& read);
  [[nodiscard]] Stack rebuild_arguments(Op& op);
  void settle(const Op& op, const Stack& returns);
  static at::Tensor packed(const Op& op, const at::Tensor& output);
  void settle_value(const Op& op, std::size_t position, c10::Storage storage);
  void keep_result(ValueId id, c10::Storage storage);
  [[nodiscard]] Hold hold_of(ValueId id) const;
  void finish_inputs(const Op& op);
  [[nodiscard]] std::vector<ValueId> overwritten_inputs(OpId first, OpId last) const;
  [[nodiscard]] bool can_make(ValueId target) const;
  bool can_run(const Op& op) const;
  double verify_op(OpId id, OpId last);
  bool has_formula(OpId id, const c10::Storage& by_call, double& seconds);
  void try_followers(OpId id, OpId last);
  void end_trial(std::vector<double>::iterator seconds);
  void give_up(const Op& op, const char* reason);
  std::string suspects_of(const Op& op, int depth) const;
  void compare(const Op& op, ValueId id, const c10::Storage& again, const at::Tensor& shown);

  Tape& tape_;
  std::int32_t number_;
  ValueId target_ = -1;
  const SweepPlan* plan_ = nullptr;  // null: the sweep caches every value with handles
  bool verifying_ = false;
  Trial trial_;
  int likely_formula_ = 0;  ///< the last that gave equal bits
  std::vector<OpId> ops_;
  std::vector<ValueId> visited_;
  std::vector<c10::Storage> borrowed_;  // alive elsewhere; held so that they outlive the sweep
  std::vector<std::pair<ValueId, c10::Storage>> written_;  // storages the present op writes
};

}  // namespace gradrecomp::tape
