#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "arena/blocks/address_range.h"
#include "arena/blocks/gaps.h"
#include "arena/blocks/resident_pages.h"

namespace gradrecomp::arena {

/// Blocks of memory in one range of addresses. Each lies where its caller says or at the lowest
/// address that has room, so blocks lie close together and the process's resident memory is little
/// more than the most that was alive at once.
///
/// What is freed stays with the process, to be written again without page faults, until
/// give_back_free() is called or a minute or two pass in which no block reaches as far, or until
/// there is too much of it: see Note [ Pages between blocks ]. The address sanitizer sees what no
/// block covers as poisoned.
///
/// Threads: safe to use from any.
class Arena {
 public:
  /// Over a range of `bytes`, or of less: see AddressRange.
  explicit Arena(std::size_t bytes);

  /// A block of at least `bytes`; null where none is available.
  /// Throws: std::bad_alloc without memory for its own records; nothing has changed then.
  void* allocate(std::size_t bytes);
  /// The block of `bytes` that begins at `offset`, a multiple of the alignment; null where another
  /// lies there or the memory is not available.
  void* allocate_at(std::size_t offset, std::size_t bytes);
  /// Frees a block of this arena.
  void free(void* block);
  /// Gives the memory of the pages that no block covers back to the system.
  void give_back_free();
  /// Ends a period, as free() does each minute: gives back what no block has reached in this one
  /// and the one before.
  void end_period();

  /// Whether an address lies in this arena's range.
  [[nodiscard]] bool owns(const void* address) const { return range_.contains(address); }
  /// The bytes of all blocks, their rounding included.
  [[nodiscard]] std::size_t bytes_in_use() const;
  /// The bytes that blocks have covered and that were not given back since.
  [[nodiscard]] std::size_t resident_bytes() const;
  /// Held while blocks change hands.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

 private:
  using Clock = std::chrono::steady_clock;

  void* open_block(Extent extent);
  void thin_out(std::size_t bytes);
  std::size_t give_back(Extent free) noexcept;
  void give_back_beyond(std::size_t offset);
  void begin_period();

  mutable std::mutex mutex_;
  AddressRange range_;
  Gaps gaps_;
  std::unordered_map<void*, Extent> blocks_;
  ResidentPages resident_;
  std::size_t bytes_in_use_ = 0;
  /// What blocks have come to in a minute or so.
  struct Most {
    std::size_t bytes = 0;  ///< at once
    std::size_t end = 0;    ///< the furthest that one has reached
  };
  Most period_;
  Most last_period_;
  std::size_t thinning_bytes_ = 0;  ///< that may be given back, for the blocks there were
  Clock::time_point period_start_ = Clock::now();
};

}  // namespace gradrecomp::arena
