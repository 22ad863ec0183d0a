#pragma once

#include <cstddef>

#include "gradrecomp/version.h"

namespace gradrecomp::arena {

/// A stretch of the process's addresses that holds memory only where it was opened and written.
///
/// Reserved addresses cost no memory, but count towards a limit on addresses (ulimit -v).
class AddressRange {
 public:
  /// Reserves `bytes`, or the most of a half, a quarter and so on that the system grants: it may
  /// grant nothing, and then the range is empty.
  explicit AddressRange(std::size_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  [[nodiscard]] std::byte* begin() const { return begin_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool contains(const void* pointer) const;

  /// Makes at least the first `bytes` readable and writable. False where the system refuses the
  /// memory, as it may where it promises no more than it has, or where the range is shorter.
  [[nodiscard]] bool open(std::size_t bytes);
  /// Gives the memory of the whole pages within `bytes` from `offset` back to the system. They stay
  /// open, and read as zeros.
  void give_back(std::size_t offset, std::size_t bytes);

 private:
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
  std::size_t open_bytes_ = 0;
};

}  // namespace gradrecomp::arena
