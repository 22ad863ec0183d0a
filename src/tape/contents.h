#pragma once

#include <c10/util/flat_hash_map.h>

#include <vector>

#include "tape/device_contents.h"
#include "tape/prints/print.h"
#include "tape/tape.h"

namespace gradrecomp::tape {

// Note [ Unseen writes ]
// ~~~~~~~~~~~~~~~~~~~~~~
// A program may write memory past the dispatcher and past version counters: through data_ptr() or
// an accessor, through x.data(), by a kernel or a collective of its own. A replay that reads such
// memory, or makes again what has been written since, would give a gradient different from the
// plain step's, so contents are looked at where that can happen:
//
// - What a factory makes, and what else is constant to autograd, is printed when it is made and
//   compared whenever an op or autograd reads it: the program may have filled it by hand.
// - Memory that is found to be filled by hand, or that only a pointer can have filled, is printed
//   part by part as ops read it: other parts may yet be filled.
// - What replays will read while the program still holds it is printed when it is first read or,
//   for what the recorder did not know to matter then, when the tape is sealed. It is compared by
//   each replay that reads it.
// - For a view only the blocks that it touches are compared, which are made small where it has
//   gaps, or a loop over the slices of a large tensor would read all of it for each.
// - What a handle is on is never compared. Plain training would read the same memory.
//
// Memory of devices is not looked at when it is read, see Note [ Contents of devices ]. Factories'
// results there are sources.

/// The bytes that `read` may read; beyond the end of its storage there is nothing.
Extent extent_read(const Op& op, const Read& read);

/// Whether what `shown` shows of `memory`, on the host, can be read.
[[nodiscard]] bool is_readable(const c10::Storage& memory, const Geometry& shown);

/// Copies what `shown` shows of `from`, on the host, to the same place of `to`; narrow gaps, too.
void copy_shown(const c10::Storage& from, const c10::Storage& to, const Geometry& shown);

/// What is known of the contents of values.
class Contents {
 public:
  /// Notes what `value` contains, and forgets what it contained before.
  void print(ValueId value, const c10::Storage& storage, const Geometry& geometry, Look look);
  void forget(ValueId value) { known_.erase(value); }
  /// Notes what `value` contains where a write, of which `written` shows all, made it of `before`,
  /// whose content is forgotten. If that was known whole, all other bytes are still to be as they
  /// were then; else they are taken as they are.
  void print_after_write(ValueId value, ValueId before, const c10::Storage& storage,
                         const Geometry& written);
  /// How a value is read.
  struct Reading {
    const Geometry& shown;
    bool reads_beyond;   ///< what it shows
    bool may_have_gaps;  ///< parts of its memory may be unmapped, or never have been read
  };
  /// Notes what a tensor shows of `value`, and all of it if that reads beyond what it shows.
  void print_shown(ValueId value, const c10::Storage& storage, const Reading& reading, Look look);
  /// Whether that has been noted in a way that reveals writes to rows and columns of the tensor,
  /// or, if by a look at the whole, any write.
  [[nodiscard]] bool knows(ValueId value, const Geometry& shown, bool reads_beyond,
                           Look look) const;
  /// Whether no write to any part of `value` would go unseen.
  [[nodiscard]] bool knows_whole(ValueId value) const;
  [[nodiscard]] bool fits(ValueId value, const c10::Storage& storage) const;
  /// The same of what a tensor shows.
  [[nodiscard]] bool fits(ValueId value, const c10::Storage& storage, const Geometry& shown);
  /// The same, but what has been found to fit in a replay sweep is not looked at again in it.
  /// Between two, the program may write: backward runs its hooks and its own nodes.
  [[nodiscard]] bool fits_in_sweep(ValueId value, const c10::Storage& storage,
                                   const Geometry& shown, std::int32_t sweep);
  [[nodiscard]] bool fits_in_sweep(ValueId value, const c10::Storage& storage, std::int32_t sweep);

  /// Of heap that it takes, but for what is on devices.
  [[nodiscard]] std::int64_t bytes() const;

  [[nodiscard]] DeviceContents& on_devices() { return on_devices_; }

 private:
  struct Known {
    Print print;
    std::vector<std::int32_t> last_sweeps = {};  ///< in which each block fitted; 0: in none
  };
  [[nodiscard]] static bool is_of_every_bit(const Known& known);
  static bool fits_in_sweep(Known& known, Print::Blocks blocks, const c10::Storage& storage,
                            std::int32_t sweep);
  [[nodiscard]] static Extent extent_to_print(const std::vector<Known>& known,
                                              const c10::Storage& storage, const Reading& reading);
  static void refine_for(Known& known, const c10::Storage& storage, const Geometry& shown);

  /// Of each value as many as tensors of it have rows of different lengths, or lie apart.
  ska::flat_hash_map<ValueId, std::vector<Known>> known_;
  DeviceContents on_devices_;
};

}  // namespace gradrecomp::tape
