#pragma once

#include <vector>

#include "tape/replay/sweep_inputs.h"
#include "tape/replay/sweep_kernels.h"

namespace gradrecomp::tape {

/// One replay sweep: runs the fewest recorded ops that make a value again, in recorded order.
///
/// It caches every value with handles, or what the plan lists for its target; without a plan also
/// what others want. The rules for steps under a plan are the ones plan/simulator/execution.cpp
/// mimics; change both or neither.
class Sweep {
 public:
  explicit Sweep(Tape& tape);
  virtual ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  c10::Storage run(ValueId target);

 protected:
  using Stack = torch::jit::Stack;

  /// Sees each result that a call made, before it is held, passed on or freed.
  virtual void look_at(const Op& /*op*/, ValueId /*id*/, const c10::Storage& /*made*/,
                       const at::Tensor& /*shown*/) {}
  /// How to hold what the sweep has made, beyond the sweep.
  [[nodiscard]] virtual Hold hold_of(ValueId id) const;

  /// Notes the ops that make `targets` again, and how often each value is read by them.
  void collect(const std::vector<ValueId>& targets);
  void call(Op& op, Stack& stack);
  void settle(const Op& op, const Stack& returns);
  void finish_inputs(const Op& op);

  Tape& tape_;
  const std::int32_t number_;
  SweepInputs inputs_;
  SweepKernels kernels_;
  std::vector<OpId> ops_;
  const NumericMode current_mode_ = NumericMode::current();
  std::vector<ValueId> visited_;

 private:
  void visit(ValueId id, std::vector<ValueId>& pending);
  void look_for_stale(ValueId id);
  void forget_copy_if_written(ValueId id);
  [[noreturn]] void refuse(ValueId id) const;
  std::size_t execute(std::size_t position);
  void execute_call(Op& op);
  [[nodiscard]] int count_joined(std::size_t position) const;
  [[nodiscard]] bool joins_in(std::size_t position) const;
  static c10::Storage own_storage(const Op& op, const at::Tensor& tensor, const Stack& returned);
  static at::Tensor packed(const Op& op, const at::Tensor& output);
  [[nodiscard]] bool is_wanted_beside(const Value& value) const;
  void settle_value(const Op& op, std::size_t position, c10::Storage storage);
  void keep_result(ValueId id, c10::Storage storage);

  ValueId target_ = -1;
  const plan::Sweep* plan_ = nullptr;   // null: the sweep caches every value with handles
  std::vector<c10::Storage> borrowed_;  // alive elsewhere; held so that they outlive the sweep
};

}  // namespace gradrecomp::tape
