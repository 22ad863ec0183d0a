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
//   what the recorder did not know to matter then, when the tape is sealed. It is compared by the
//   first replay that reads it.
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
  /// The same, once until forget_looks().
  [[nodiscard]] bool fits_at_first_look(ValueId value, const c10::Storage& storage) {
    Known& known = known_.at(value);
    if (!known.looked) known.fits = known.print.fits(storage);
    known.looked = true;
    return known.fits;
  }
  void forget_looks() {
    for (auto& [value, known] : known_) known.looked = false;
  }

 private:
  struct Known {
    Print print;
    bool looked = false;
    bool fits = true;
  };
  ska::flat_hash_map<ValueId, Known> known_;
};

}  // namespace gradrecomp::tape
