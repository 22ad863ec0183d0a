#pragma once

#include <c10/core/Event.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/util/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "gradrecomp/kernels/hash.h"
#include "tape/host_memory/hash_slabs.h"
#include "tape/op.h"

namespace gradrecomp::tape {

// Note [ Contents of devices ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// To look at a device's memory when it is read, the host would have to wait for the device. So the
// device hashes what replays will read when the region ends, and again in each sweep that reads
// it, all of its words, into pinned host memory. The host compares when a backward pass has ended,
// and waits no longer than for the last of these hashes. What it finds then has gone into
// gradients, so backward ends with an error.
//
// That is late for what a region does itself, and for a backward pass in it: there nothing is
// compared. Nor is it where a device has no kernels of ours, while it captures, and for lack of
// pinned memory.

/// What the memory of devices contains that replays read and others may write.
class DeviceContents {
 public:
  /// A read by a replay.
  struct Look {
    ValueId value = -1;
    const Op* reader = nullptr;
  };

  /// Whether memory of this device can be hashed.
  static bool can_look_at(const c10::Storage& storage);

  DeviceContents() = default;
  /// Waits until devices write no more hashes.
  ~DeviceContents();
  DeviceContents(const DeviceContents&) = delete;
  DeviceContents& operator=(const DeviceContents&) = delete;

  /// Notes that replays read `extent` of `storage`, which holds `value`, and that the work of
  /// `stream` may read it from now on.
  void expect(ValueId value, const c10::Storage& storage, Extent extent, const c10::Stream& stream);
  /// Has it all hashed.
  void hash_expected();

  /// Notes that a replay sweep reads `extent` of `storage`. Passes over what was not expected.
  void look(Look look, const c10::Storage& storage, Extent extent, std::int32_t sweep);
  /// Has what the sweep looked at hashed.
  void hash_looked_at() { run_queue(); }
  /// Forgets it instead.
  void give_up() { queue_.clear(); }

  /// Waits for the hashes so far and forgets all looks. Returns the first that found another
  /// content; none: there is none.
  std::optional<Look> find_changed();

 private:
  struct Part {
    Extent extent;
    std::uint64_t* hashes = nullptr;
    std::int32_t last_sweep = 0;  ///< that looked at it
    Extent last_blocks = {};      ///< which it looked at, by number
  };
  struct Expected {
    c10::Storage storage;  // until it is hashed
    c10::Stream stream;
    std::vector<Part> parts;
  };
  struct Comparison {
    Look look;
    const std::uint64_t* before = nullptr;
    const std::uint64_t* now = nullptr;
    std::int64_t num_hashes = 0;
  };
  struct Queued {
    c10::Storage storage;
    c10::Stream stream;
    kernels::HashedMemory memory;
    std::optional<Comparison> comparison = std::nullopt;
  };
  struct LastWork {
    c10::Stream stream;
    c10::Event end;
  };

  static void merge_overlapping(std::vector<Part>& parts);
  void run_queue();
  void run_on(const c10::Stream& stream);
  void note_end(const c10::Stream& stream);
  void wait() const;

  ska::flat_hash_map<ValueId, Expected> expected_;
  std::vector<Queued> queue_;
  std::vector<Comparison> comparisons_;
  std::vector<LastWork> last_work_;  // by stream
  HashSlabs expected_hashes_;
  HashSlabs looked_at_;
};

}  // namespace gradrecomp::tape
