#pragma once

#include <c10/util/flat_hash_map.h>

#include "tape/print.h"
#include "tape/tape.h"

namespace gradrecomp::tape {

// Note [ Writes that nobody saw ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A program may write memory past the dispatcher and past version counters: through data_ptr() or
// an accessor, through x.data(), by a kernel or a collective of its own. A replay that reads such
// memory, or makes again what has been written since, would give another gradient than the plain
// step, so contents are looked at where that can happen:
//
// - What a factory makes, and what else is constant to autograd, is printed when it is made and
//   compared whenever an op or autograd reads it: the program may have filled it by hand.
// - What replays will read and somebody else still holds is printed when it is first read or, for
//   what the recorder did not know to matter then, when the tape is sealed. It is compared by each
//   replay that reads it.
// - What a handle is on is never compared. Plain training would read the same memory.
//
// Memory of devices is not looked at: factories' results there are sources.

/// What is known of the contents of values.
class Contents {
 public:
  void print(ValueId value, const c10::Storage& storage, const Geometry& geometry, Look look) {
    known_[value] = {Print(storage, geometry, look)};
  }
  /// Whether no write to any part of `value` would go unseen.
  [[nodiscard]] bool knows_whole(ValueId value) const { return known_.at(value).print.is_whole(); }
  [[nodiscard]] bool fits(ValueId value, const c10::Storage& storage) const {
    return known_.at(value).print.fits(storage);
  }
  /// The same, at the first look in a replay sweep. Between two, the program may write: backward
  /// runs its hooks and its own nodes.
  [[nodiscard]] bool fits_in_sweep(ValueId value, const c10::Storage& storage, std::int32_t sweep) {
    Known& known = known_.at(value);
    if (known.last_sweep != sweep) known.fits = known.print.fits(storage);
    known.last_sweep = sweep;
    return known.fits;
  }

 private:
  struct Known {
    Print print;
    std::int32_t last_sweep = 0;  ///< that looked at it; the first is 1
    bool fits = true;
  };
  ska::flat_hash_map<ValueId, Known> known_;
};

}  // namespace gradrecomp::tape
