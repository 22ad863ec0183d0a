#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// Throws the error of a replay whose `reader` reads that many bytes which were written unseen.
/// `found_late`: after what it has made has been used.
[[noreturn]] void refuse_overwritten(const Op& reader, std::int64_t num_bytes, bool found_late);

/// What the ops of one sweep read: values that live, and those that the sweep has made.
///
/// It refuses what has changed since the forward pass. An op that writes gets memory of its own.
class SweepInputs {
 public:
  SweepInputs(Tape& tape, std::int32_t sweep) : tape_(tape), sweep_(sweep) {}

  [[nodiscard]] c10::Storage storage(const Op& op, const Read& read);
  [[nodiscard]] at::Tensor tensor(const Op& op, const Read& read);
  /// All arguments of `op`.
  [[nodiscard]] torch::jit::Stack arguments(const Op& op);

  /// The memory that the current op writes over `id`; none if it writes elsewhere.
  [[nodiscard]] c10::Storage written_over(ValueId id) const;
  /// Call it when an op has run.
  void op_ends() { written_.clear(); }

 private:
  [[nodiscard]] c10::Storage storage(const Op& op, const Read& read, bool op_writes);
  [[nodiscard]] c10::Storage from_tape(const Op& op, const Read& read);
  [[nodiscard]] bool is_there(const Read& read, const c10::Storage& storage) const;
  [[nodiscard]] c10::Storage own_memory(const Op& op, const Read& read);
  void check_unmodified(const Read& read, const Op& reader) const;
  void check_content(const Read& read, const Op& reader);
  void look_on_device(const Read& read, const Op& reader, const c10::Storage& storage);

  Tape& tape_;
  std::int32_t sweep_;
  std::vector<std::pair<ValueId, c10::Storage>> written_;  // by the current op
};

}  // namespace gradrecomp::tape
