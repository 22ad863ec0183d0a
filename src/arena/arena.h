#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "arena/address_range.h"
#include "arena/gaps.h"

namespace gradrecomp::arena {

/// Blocks of memory in one range of addresses. Each lies where its caller says or at the lowest
/// address that has room, so blocks lie close together and the process's resident memory is little
/// more than the most that was alive at once.
///
/// What is freed stays with the process, to be written again without page faults, until
/// give_back_free() is called or a minute or two pass in which no block reaches as far. The address
/// sanitizer sees what no block covers as poisoned.
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
  /// Held while blocks change hands.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

 private:
  using Clock = std::chrono::steady_clock;

  void* open_block(Extent extent);
  void give_back_beyond(std::size_t offset);
  void begin_period();

  mutable std::mutex mutex_;
  AddressRange range_;
  Gaps gaps_;
  std::unordered_map<void*, Extent> blocks_;
  std::size_t bytes_in_use_ = 0;
  std::size_t resident_end_ = 0;     ///< no page beyond holds memory
  std::size_t period_end_ = 0;       ///< the furthest that a block has reached in this period
  std::size_t last_period_end_ = 0;  ///< and in the one before
  Clock::time_point period_start_ = Clock::now();
};

}  // namespace gradrecomp::arena
