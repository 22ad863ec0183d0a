#pragma once

#include <cstdint>

#include "tape/tape.h"

namespace gradrecomp::tape {

struct OpTraits;

/// The running hash of a sequence of calls, by which plans and sequences are told apart: of
/// operators, shapes, dtypes, wiring, and what else decides what a plan is for.
///
/// Plans in files go by it, so what is added, and in which order, must stay.
class SequenceHash {
 public:
  void add(std::uint64_t item);
  /// A call that is about to run. `is_fickle`: it cannot be made again in this mode of the device.
  void add_call(const OpTraits& traits, const Op& op, const Tape& tape, bool is_fickle);
  /// That the call has a part of its own, by which later ops are counted, maybe with a packed form.
  void add_part(bool is_packed);
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  void add_choices(const Op& op);
  void add_absences(const Op& op);
  void add_sizes(const Op& factory);
  void add_read(const Read& read, const Tape& tape);

  std::uint64_t hash_ = 0;
};

}  // namespace gradrecomp::tape
