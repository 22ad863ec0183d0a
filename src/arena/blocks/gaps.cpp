#include "arena/blocks/gaps.h"

#include <algorithm>

namespace gradrecomp::arena {

Gaps::Gaps(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) gaps_.push_back({0, bytes});
}

// There is at most one gap more than there are blocks.
void Gaps::make_room_for(std::size_t num_blocks) {
  if (gaps_.capacity() <= num_blocks) gaps_.reserve(2 * num_blocks + 2);
}

std::size_t Gaps::end_of_taken() const {
  const bool is_last_free = !gaps_.empty() && gaps_.back().end() == bytes_;
  return is_last_free ? gaps_.back().offset : bytes_;
}

std::optional<std::size_t> Gaps::take_first(std::size_t bytes) {
  const auto found =
      std::ranges::find_if(gaps_, [bytes](const Extent& gap) { return gap.bytes >= bytes; });
  if (found == gaps_.end()) return std::nullopt;
  const std::size_t offset = found->offset;
  *found = {offset + bytes, found->bytes - bytes};
  if (found->bytes == 0) gaps_.erase(found);
  return offset;
}

bool Gaps::take(Extent wanted) {
  const auto after = std::ranges::upper_bound(gaps_, wanted.offset, {}, &Extent::offset);
  if (after == gaps_.begin()) return false;
  const auto gap = after - 1;
  if (gap->end() < wanted.end()) return false;
  const Extent before{gap->offset, wanted.offset - gap->offset};
  const Extent rest{wanted.end(), gap->end() - wanted.end()};
  if (before.bytes > 0 && rest.bytes > 0) {
    *gap = before;
    gaps_.insert(after, rest);
  } else if (before.bytes + rest.bytes > 0) {
    *gap = before.bytes > 0 ? before : rest;
  } else {
    gaps_.erase(gap);
  }
  return true;
}

void Gaps::give_back(Extent taken) {
  const auto after = std::ranges::upper_bound(gaps_, taken.offset, {}, &Extent::offset);
  const bool joins_before = after != gaps_.begin() && (after - 1)->end() == taken.offset;
  const bool joins_after = after != gaps_.end() && taken.end() == after->offset;
  if (joins_before) {
    (after - 1)->bytes += taken.bytes + (joins_after ? after->bytes : 0);
    if (joins_after) gaps_.erase(after);
  } else if (joins_after) {
    *after = {taken.offset, taken.bytes + after->bytes};
  } else {
    gaps_.insert(after, taken);
  }
}

}  // namespace gradrecomp::arena
