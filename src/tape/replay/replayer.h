#pragma once

#include <string>

#include "tape/tape.h"

namespace gradrecomp::tape {

/// What autograd's handles ask of a tape: values, whether it holds them or has to make them again.
///
/// Cheap to make: what it remembers is on the tape.
/// Threads:  any number once the tape is sealed; before that the one that records.
class Replayer {
 public:
  explicit Replayer(Tape& tape) : tape_(tape) {}

  /// The storage of `value`, replaying what it takes.
  /// Throws: c10::Error if a value it needs was modified after the forward pass, with the knowledge
  ///         of its version counter or without, or is gone, naming the op.
  c10::Storage materialize(ValueId value);
  /// Holds what backward was given as long as something else does, as autograd holds what it saved.
  /// Else a leaf would take it for its gradient and add to it in place.
  void hold_while_used(const at::Tensor& unpacked);
  /// `shown`: as the handle was made.
  void release_handle(ValueId value, const Geometry* shown);
  /// Notes that a backward pass of that number asks for a value; -1: none does.
  void asked_by(int graph_task);
  /// Waits for devices to say what replays have read there.
  /// Throws: c10::Error if some of it was overwritten unseen after the forward pass.
  void check_devices();
  /// Forgets all values cached by replays that are still wanted (after retain_graph).
  void drop_cached();
  /// Says what was to be made again, and under which plan, when that failed.
  [[nodiscard]] std::string describe(ValueId value) const;

 private:
  void note_early_backward();
  void let_go_of_unused();
  void copy_before_it_goes(ValueId id);
  void part_with_lent(ValueId id, const std::vector<OpId>& losing);
  void part_with_what_may_vanish(ValueId id, Extent shown);
  void part_within_region(ValueId id, const std::vector<OpId>& losing);
  void bring_back_at(ValueId demanded);
  c10::Storage find_or_replay(ValueId id);
  c10::Storage replay(ValueId id);

  Tape& tape_;
};

}  // namespace gradrecomp::tape
