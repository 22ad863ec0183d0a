#pragma once

#include "tape/tape.h"

namespace gradrecomp::tape {

/// Whether it is kept as something wrote it that the tape has not seen, which may write again.
inline bool is_filled_by_hand(const Value& value) { return value.uninitialized && value.must_keep; }

/// Adds to a tape what a recorder sees.
///
/// Threads:  the one that records.
class TapeWriter {
 public:
  explicit TapeWriter(Tape& tape) : tape_(tape) {}
  [[nodiscard]] Tape& tape() const { return tape_; }

  // --- values and ops ---

  /// The value `tensor` shows now; an unknown storage becomes an external value.
  ValueId read(const at::Tensor& tensor);
  /// Whether what `tensor` shows was made outside the region, as far as the tape knows.
  [[nodiscard]] bool is_external(const at::Tensor& tensor) const;
  /// An external value over a private copy of `number`, a 0-dim CPU tensor, so that holding it
  /// does not change when the program's own temporary dies.
  ValueId add_constant(const at::Tensor& number);
  /// Notes that a recorded op reads a value.
  void count_read(const Op& op, const Read& read);
  /// Takes that back, for one that no replay runs.
  void discount_read(ValueId value) { --values()[value].num_reads; }
  /// Whether ops have written to memory outside the region.
  [[nodiscard]] bool has_written_externals() const { return has_written_externals_; }
  /// A fresh value made by `producer`.
  ValueId add_value(const at::Tensor& tensor, OpId producer);
  /// The same for the result of a factory, whose version counter must stay its own for now.
  ValueId add_factory_value(const at::Tensor& tensor, OpId producer);
  /// A new value in the storage of `old`, written by `producer`.
  /// `bumps`: its version counter will grow on that account.
  ValueId add_version(ValueId old, c10::Storage storage, OpId producer, bool bumps);
  /// Marks `value` as made by an empty-like op.
  void set_uninitialized(ValueId value) { values()[value].uninitialized = true; }
  /// Makes it a source that the program goes on to fill by hand: what ops read of it from now on is
  /// noted part by part.
  void set_filled_by_hand(ValueId value);
  /// Notes that its memory has another owner, too. Nothing is made again from it.
  void set_lent(ValueId value) { values()[value].lent = true; }
  OpId add_op(Op&& op);
  /// What autograd saves.
  ValueId add_handle(const at::Tensor& tensor);

  // --- unseen writes ---

  /// Notes that `alias` shows `value` too, with a version counter of its own.
  void follow_counter(ValueId value, const at::Tensor& alias);
  /// Notes what a tensor shows of a source, and all of it if that `reads_beyond` what it shows,
  /// unless it is known or does not matter.
  void print_source(ValueId value, const Geometry& shown, bool reads_beyond);
  /// Notes the same of memory that is filled by hand, whatever the guard is.
  void print_part(ValueId value, const Geometry& shown, bool reads_beyond);
  /// Whether the content of `value` is unknown, though the guard could know it.
  [[nodiscard]] bool is_unknown(ValueId value) const;
  /// Whether what `shown` shows of `value`, or any of it if null, has been written unseen since the
  /// last look.
  /// `bumped`: its version counter has grown on account of a write that is yet to come.
  [[nodiscard]] bool was_written_unseen(ValueId value, const at::Tensor* shown, bool bumped);
  /// Notes that the version counter of `value` is about to grow, or has.
  void expect_bump(ValueId value) { ++values()[value].num_due_bumps; }
  /// Whether an op made it that keeps hold of its memory, so that it may be written at any time,
  /// whatever reads it later.
  [[nodiscard]] bool is_kept_by_its_maker(ValueId value) const;

  // --- what is held on to ---

  /// Holds a clone of `value`, if it is a source that recorded ops read, before it is overwritten.
  void snapshot_before_write(ValueId value);
  /// Goes on with a copy of what `value` contains, which the tape keeps, until
  /// forget_overwritten().
  void copy_before_write(ValueId value);
  void forget_overwritten(ValueId value);
  /// Keeps it, in host memory if the plan that is followed says so.
  void keep_as_planned(ValueId value);
  /// Lets go of the device's memory of what leaves after the ops so far. Call it before the next.
  void leave();
  /// Lets go of lent memory that no handle shows: nothing will be made again from it, and its owner
  /// may be waiting for it.
  void let_go_if_passing(ValueId value);
  /// Holds it until the window ends that it is in.
  void hold_in_window(ValueId value);
  /// Holds it as long as anything wants it.
  void keep(ValueId value);

 private:
  [[nodiscard]] std::deque<Value>& values() const { return tape_.values(); }
  ValueId add(const c10::Storage& storage, OpId producer);
  void take_counter(ValueId id, const at::Tensor& tensor);
  void hold_while_shown(ValueId id, const at::Tensor& shown);
  template <class Make>
  void add_copy(ValueId id, const Make& make);
  void round(ValueId id);
  void send_away(ValueId id, bool rounded);
  /// Whether its version counter has grown since the last look, beyond what was expected.
  bool has_new_version(ValueId id, bool bumped);

  Tape& tape_;
  OpId last_left_op_ = -1;  ///< what leaves after ops up to this one has left
  bool has_written_externals_ = false;
};

}  // namespace gradrecomp::tape
