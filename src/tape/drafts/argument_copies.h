#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <utility>

#include "tape/drafts/draft.h"
#include "tape/lent/small_copies.h"
#include "tape/writing/tape_writer.h"

namespace gradrecomp::tape {

/// Copies arguments whose memory may contain something else by the time of a replay, or be gone;
/// replays read the copies instead.
///
/// A copy is an op on the tape, so that the planner knows of it, and what it makes is a source.
class ArgumentCopies {
 public:
  /// Records a call.
  using Record = std::function<void(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                    torch::jit::Stack* stack)>;

  ArgumentCopies(TapeWriter& writer, Record record)
      : writer_(writer), record_(std::move(record)), small_(writer.tape()) {}

  /// Copies what the call of `draft` is about to read from `stack`, and notes it there.
  void add_to(Draft& draft, const torch::jit::Stack& stack);
  /// Whether the call being recorded is such a copy.
  [[nodiscard]] bool is_copying() const { return is_copying_; }

 private:
  void add_statistics(Draft& draft, const torch::jit::Stack& stack);
  void add_small(Draft& draft, const torch::jit::Stack& stack);
  [[nodiscard]] bool needs_a_copy(const OpTraits& reader, const at::Tensor& tensor) const;
  [[nodiscard]] bool was_written(const at::Tensor& tensor) const;
  [[nodiscard]] bool may_vanish(const at::Tensor& parameter) const;
  at::Tensor of_current(const at::Tensor& tensor);
  at::Tensor make(const at::Tensor& tensor);
  at::Tensor record_clone(const at::Tensor& tensor);
  at::Tensor record_row(const at::Tensor& tensor, std::int64_t shift);

  TapeWriter& writer_;
  Record record_;
  SmallCopies small_;
  bool is_copying_ = false;
};

}  // namespace gradrecomp::tape
