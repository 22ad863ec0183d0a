#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tape/replay/verification.h"
#include "tape/writing/tape_writer.h"
#include "tape/writing/unseen_writes.h"

namespace gradrecomp::tape {

/// What a step without a plan holds: boundaries, and what has been saved since the last of them.
///
/// See Note [ Windows ] in windows.cpp.
class Windows {
 public:
  Windows(TapeWriter& writer, UnseenWrites& unseen_writes)
      : writer_(writer), unseen_writes_(unseen_writes) {}

  /// From now on what a window made is verified when that ends.
  void verify_each() { verifies_ = true; }
  /// From now on nothing that autograd saves is dropped.
  void keep_saved() { keeps_saved_ = true; }

  [[nodiscard]] OpId first_op() const { return window_.first_op; }
  /// Whether the current one is to end: if it has saved more than `most_bytes` or, where that is
  /// not given, if ending it pays.
  [[nodiscard]] bool is_full(std::optional<std::int64_t> most_bytes);
  /// Whether ops can be verified now: not while the program holds the lock of a generator that some
  /// have drawn from.
  [[nodiscard]] bool may_close() const;
  /// Ends the current one: verifies its ops where asked, then drops what can be dropped, unless it
  /// is the last one.
  /// Returns the times of its ops, none if not verified.
  std::vector<ReplayTimes> close(bool is_last, bool takes_apart);
  /// Begins here: up to now a plan said what is held.
  void begin() { window_ = next(); }
  /// Keeps what the program still holds of what the tape has so far.
  void keep_all_so_far() { settle(0, keeps_saved_); }

  /// Holds what autograd has saved until its window ends.
  void hold_saved(ValueId value);
  /// Copies `value`, which is about to be written to, if it is a boundary.
  void prepare_write(ValueId value);

 private:
  /// What has been recorded since the last boundary.
  struct Window {
    OpId first_op = 0;
    ValueId first_value = 0;
    std::int64_t saved_bytes = 0;
    std::vector<ValueId> overwritten = {};  ///< boundaries that it has written to, copied
    OpId next_look = 0;                     ///< at what crosses
  };

  [[nodiscard]] Window next() const;
  /// What the program still holds of the values from `first` on becomes a boundary, the rest is
  /// dropped, unless autograd has saved it and `keeps_saved`.
  void settle(ValueId first, bool keeps_saved);
  /// Keeps what is held of the current one and could not be made again if the program wrote once
  /// more to memory that it fills by hand.
  void keep_beside_filled();
  /// The bytes that would become a boundary if the current one ended now.
  [[nodiscard]] std::int64_t crossing_bytes() const;
  [[nodiscard]] bool may_become_boundary(ValueId value) const;

  TapeWriter& writer_;
  UnseenWrites& unseen_writes_;
  bool verifies_ = false;
  PatternFits pattern_fits_;  ///< found by verifying
  bool keeps_saved_ = false;
  Window window_;
  std::int64_t held_bytes_ = 0;  ///< in boundaries, which earlier windows have left behind
};

}  // namespace gradrecomp::tape
