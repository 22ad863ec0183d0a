#pragma once

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
/// give_back_free() is called. The address sanitizer sees what no block covers as poisoned.
///
/// Threads: safe to use from any.
class Arena {
 public:
  /// Over a range of `bytes`, or of less: see AddressRange.
  explicit Arena(std::size_t bytes);

  /// A block of at least `bytes`; null where none is to be had.
  void* allocate(std::size_t bytes);
  /// The block of `bytes` that begins at `offset`, a multiple of the alignment; null where another
  /// lies there or none is to be had.
  void* allocate_at(std::size_t offset, std::size_t bytes);
  /// Frees a block of this arena.
  void free(void* block);
  /// Gives the memory of the pages that no block covers back to the system.
  void give_back_free();

  /// Whether an address lies in this arena's range.
  [[nodiscard]] bool owns(const void* address) const { return range_.contains(address); }
  /// The bytes of all blocks, their rounding included.
  [[nodiscard]] std::size_t bytes_in_use() const;
  /// Held while blocks change hands.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

 private:
  void* open_block(Extent extent);

  mutable std::mutex mutex_;
  AddressRange range_;
  Gaps gaps_;
  std::unordered_map<void*, Extent> blocks_;
  std::size_t bytes_in_use_ = 0;
  std::size_t most_end_ = 0;  ///< no block has ever reached further
};

}  // namespace gradrecomp::arena
