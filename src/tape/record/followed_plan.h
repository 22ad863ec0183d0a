#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tape/calls/sequence_hash.h"
#include "tape/drafts/draft.h"
#include "tape/record/recording_plan.h"
#include "tape/tape.h"

namespace gradrecomp::tape {

/// The plan that a step is recorded by, and the calls that have come so far.
class FollowedPlan {
 public:
  /// Called before a call that the plan did not foresee; returns what to do from there on.
  using Diverged = std::function<RecordingPlan(std::size_t call, std::uint64_t hash)>;

  FollowedPlan(Tape& tape, RecordingPlan plan, Diverged diverged);

  [[nodiscard]] const RecordingPlan& operator*() const { return plan_; }
  [[nodiscard]] const RecordingPlan* operator->() const { return &plan_; }
  [[nodiscard]] const std::vector<std::uint64_t>& sequence() const { return sequence_; }
  /// As RecordingPlan::calls, of the ops on the tape.
  [[nodiscard]] const std::vector<std::int32_t>& calls() const { return calls_; }

  /// Whether the next call puts an op on the tape, if it is the one that the plan foresees.
  [[nodiscard]] bool next_call_makes_op() const;
  /// Notes a call that is about to run. Returns whether the plan foresaw it.
  bool foresees(const Draft& draft);
  /// Goes by another plan from the call on that was not foreseen. Returns whether that one would
  /// have treated what is on the tape in the same way.
  bool change();
  /// Notes that the last call has put one more op on the tape.
  void note_op() { calls_.push_back(static_cast<std::int32_t>(sequence_.size()) - 1); }
  /// Notes that the last call has a part of its own, maybe with a packed form.
  void note_part(bool is_packed) { hash_.add_part(is_packed); }
  /// Notes whether a leaf that a call reads has a gradient yet. The call itself is not recorded.
  void note_gradient(bool exists) { hash_.add(exists ? 1 : 0); }

  /// Whether the whole recorded sequence is the one the plan was made for, and went by it.
  [[nodiscard]] bool is_followed_to_the_end() const;
  /// The values from outside that replays may read in any step of this sequence under this plan,
  /// ascending: all that ops with a dropped result read.
  [[nodiscard]] std::vector<ValueId> values_to_guard() const;

 private:
  Tape& tape_;
  RecordingPlan plan_;
  Diverged diverged_;
  std::vector<std::uint64_t> sequence_;
  std::vector<std::int32_t> calls_;
  SequenceHash hash_;
  bool is_mixed_ = false;  // it began by one plan and goes on by another
};

}  // namespace gradrecomp::tape
