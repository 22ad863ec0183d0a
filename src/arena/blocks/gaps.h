#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::arena {

/// Bytes from `offset` on, in a range of addresses.
struct Extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;

  [[nodiscard]] std::size_t end() const { return offset + bytes; }
  bool operator==(const Extent&) const = default;
};

/// What of a range no block covers.
///
/// Complexity: linear in the number of gaps, which lie in one array: a microsecond for a thousand.
class Gaps {
 public:
  /// All of a range of `bytes` is one gap.
  explicit Gaps(std::size_t bytes);

  /// Has give_back() throw nothing while no more than `num_blocks` blocks are taken.
  /// Throws: std::bad_alloc.
  void make_room_for(std::size_t num_blocks);
  /// Takes `bytes` from the first gap that has as many. Returns their offset; none if no gap has.
  std::optional<std::size_t> take_first(std::size_t bytes);
  /// Takes `wanted` if it is free.
  bool take(Extent wanted);
  /// Makes a gap of `taken`, joined to those beside it.
  void give_back(Extent taken);

  /// The end of the furthest block; 0 if there is none.
  [[nodiscard]] std::size_t end_of_taken() const;
  /// In order of their offsets; none touches the next.
  [[nodiscard]] const std::vector<Extent>& all() const { return gaps_; }

 private:
  std::size_t bytes_;
  std::vector<Extent> gaps_;
};

}  // namespace gradrecomp::arena
