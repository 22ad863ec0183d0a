#pragma once

#include <cstddef>
#include <vector>

#include "arena/blocks/gaps.h"

namespace gradrecomp::arena {

/// What of a range may hold memory: what blocks have covered since it was last given back.
///
/// Complexity: linear in the number of stretches, of which there are few more than were given back;
/// logarithmic where a block lies in one of them.
class ResidentPages {
 public:
  /// Throws: std::bad_alloc; nothing has changed then.
  void add(Extent extent);
  /// Returns how many bytes of `extent` were in it.
  /// Throws: std::bad_alloc; nothing has changed then.
  std::size_t remove(Extent extent);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t bytes_in(Extent extent) const;
  /// The last part of `extent` of which so many bytes are in it, or all of it if there are fewer.
  [[nodiscard]] Extent last_in(Extent extent, std::size_t bytes) const;
  /// Nothing beyond is in it.
  [[nodiscard]] std::size_t end() const { return stretches_.empty() ? 0 : stretches_.back().end(); }

 private:
  void make_room_for_one();

  std::vector<Extent> stretches_;  // in order of their offsets; none touches the next
  std::size_t bytes_ = 0;
};

}  // namespace gradrecomp::arena
