#include "arena/blocks/resident_pages.h"

#include <algorithm>
#include <iterator>

namespace gradrecomp::arena {
namespace {

/// The first stretch that ends at `offset` or beyond.
template <typename Stretches>
auto first_reaching(Stretches& stretches, std::size_t offset) {
  return std::ranges::lower_bound(stretches, offset, {}, &Extent::end);
}

std::size_t common_bytes(Extent one, Extent other) {
  const std::size_t begin = std::max(one.offset, other.offset);
  const std::size_t end = std::min(one.end(), other.end());
  return begin < end ? end - begin : 0;
}

}  // namespace

void ResidentPages::add(Extent extent) {
  const auto first = first_reaching(stretches_, extent.offset);
  auto last = first;
  std::size_t known = 0;
  Extent joined = extent;
  for (; last != stretches_.end() && last->offset <= extent.end(); ++last) {
    known += common_bytes(*last, extent);
    const std::size_t end = std::max(joined.end(), last->end());
    joined.offset = std::min(joined.offset, last->offset);
    joined.bytes = end - joined.offset;
  }
  if (first == last) {
    stretches_.insert(first, extent);
  } else {
    *first = joined;
    stretches_.erase(std::next(first), last);
  }
  bytes_ += extent.bytes - known;
}

std::size_t ResidentPages::remove(Extent extent) {
  make_room_for_one();
  std::size_t removed = 0;
  auto stretch = first_reaching(stretches_, extent.offset);
  while (stretch != stretches_.end() && stretch->offset < extent.end()) {
    const Extent whole = *stretch;
    removed += common_bytes(whole, extent);
    const Extent before{whole.offset, std::max(whole.offset, extent.offset) - whole.offset};
    const Extent after{extent.end(), std::max(whole.end(), extent.end()) - extent.end()};
    if (before.bytes > 0 && after.bytes > 0) {
      *stretch = after;
      stretch = std::next(stretches_.insert(stretch, before));
    } else if (before.bytes > 0 || after.bytes > 0) {
      *stretch = before.bytes > 0 ? before : after;
      ++stretch;
    } else {
      stretch = stretches_.erase(stretch);
    }
  }
  bytes_ -= removed;
  return removed;
}

// Only the first stretch can be split.
void ResidentPages::make_room_for_one() {
  if (stretches_.size() == stretches_.capacity()) stretches_.reserve(2 * stretches_.size() + 1);
}

std::size_t ResidentPages::bytes_in(Extent extent) const {
  std::size_t bytes = 0;
  for (auto stretch = first_reaching(stretches_, extent.offset);
       stretch != stretches_.end() && stretch->offset < extent.end(); ++stretch) {
    bytes += common_bytes(*stretch, extent);
  }
  return bytes;
}

Extent ResidentPages::last_in(Extent extent, std::size_t bytes) const {
  auto stretch = std::ranges::lower_bound(stretches_, extent.end(), {}, &Extent::offset);
  std::size_t missing = bytes;
  while (stretch != stretches_.begin() && (--stretch)->end() > extent.offset) {
    const std::size_t common = common_bytes(*stretch, extent);
    const std::size_t end = std::min(stretch->end(), extent.end());
    if (common >= missing) return {end - missing, extent.end() - (end - missing)};
    missing -= common;
  }
  return extent;
}

}  // namespace gradrecomp::arena
