#pragma once

#include <utility>
#include <vector>

#include "tape/substitutes/pointwise_pass.h"
#include "tape/tape.h"

namespace gradrecomp::tape {

/// One replay sweep: runs the fewest recorded ops that make a value again, in recorded order.
///
/// It caches every value with handles, or what the plan lists for its target. The rules here are
/// the ones plan/simulator/execution.cpp mimics; change both or neither.
class Sweep {
 public:
  explicit Sweep(Tape& tape);
  virtual ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  c10::Storage run(ValueId target);

 protected:
  using Stack = std::vector<c10::IValue>;

  /// Sees each result that a call made, before it is held, passed on or freed.
  virtual void look_at(const Op& /*op*/, ValueId /*id*/, const c10::Storage& /*made*/,
                       const at::Tensor& /*shown*/) {}
  /// How to hold what the sweep has made, beyond the sweep.
  [[nodiscard]] virtual Hold hold_of(ValueId id) const;

  /// Notes the ops that make `targets` again, and how often each value is read by them.
  void collect(const std::vector<ValueId>& targets);
  void call(Op& op, Stack& stack);
  [[nodiscard]] Stack rebuild_arguments(Op& op);
  static void run_call(Op& op, Stack& stack);
  static at::Tensor run_substitute(const Op& op, const std::vector<at::Tensor>& tensors,
                                   int formula, const Followers& followers);
  at::Tensor substitute(OpId id, int formula, const Followers& followers);
  /// The steps of the `num_joined` ops after `id`, done in one pass with its substitute.
  [[nodiscard]] Followers followers_of(OpId id, int num_joined);
  /// The pass of `count` ops from `first` on, `step` being that of the first.
  [[nodiscard]] PointwisePass pass_of(OpId first, int count, const PointwiseStep& step);
  [[nodiscard]] at::Tensor operand_of(const Op& op, const PointwiseStep& step);
  /// Makes the result of `id` by its kernel, and those of so many ops after it that join, in its
  /// place. Returns the last.
  c10::Storage run_kernels(OpId id, int num_joined);
  /// Turns `made`, the result of the op before `first`, into that of the last of `count` ops.
  void join(OpId first, int count, const c10::Storage& made);
  void settle(const Op& op, const Stack& returns);
  void finish_inputs(const Op& op);

  Tape& tape_;
  std::vector<OpId> ops_;
  const NumericMode current_mode_ = NumericMode::current();
  std::vector<ValueId> visited_;
  std::vector<std::pair<ValueId, c10::Storage>> written_;  // storages the current op writes

 private:
  void visit(ValueId id, std::vector<ValueId>& pending);
  void look_for_stale(ValueId id);
  void forget_copy_if_written(ValueId id);
  void check_unmodified(ValueId id, const Op& reader) const;
  void check_content(const Read& read, const Op& reader);
  void check_mode() const;
  [[noreturn]] void refuse(ValueId id) const;
  std::size_t execute(std::size_t position);
  void execute_call(Op& op);
  [[nodiscard]] int count_joined(std::size_t position) const;
  [[nodiscard]] bool joins_in(std::size_t position) const;
  [[nodiscard]] c10::Storage input_storage(const Op& op, const Read& read);
  [[nodiscard]] c10::Storage input_from_tape(const Op& op, const Read& read);
  [[nodiscard]] c10::Storage written_storage(const Op& op, const Read& read);
  static c10::Storage own_storage(const Op& op, const at::Tensor& tensor, const Stack& returned);
  static at::Tensor packed(const Op& op, const at::Tensor& output);
  void settle_value(const Op& op, std::size_t position, c10::Storage storage);
  void keep_result(ValueId id, c10::Storage storage);

  std::int32_t number_;
  ValueId target_ = -1;
  const plan::Sweep* plan_ = nullptr;   // null: the sweep caches every value with handles
  std::vector<c10::Storage> borrowed_;  // alive elsewhere; held so that they outlive the sweep
};

}  // namespace gradrecomp::tape
