#include "arena/arena.h"

#include <algorithm>
#include <limits>
#include <new>

#include "arena/alignment.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRADRECOMP_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define GRADRECOMP_ADDRESS_SANITIZER
#endif
#ifdef GRADRECOMP_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace gradrecomp::arena {
namespace {

void poison([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef GRADRECOMP_ADDRESS_SANITIZER
  __asan_poison_memory_region(begin, bytes);
#endif
}

void unpoison([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef GRADRECOMP_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(begin, bytes);
#endif
}

// Steps that take longer may find that their pages are gone, and have them faulted in again.
constexpr std::chrono::minutes kPeriod{1};

constexpr std::size_t kMostBytes = std::numeric_limits<std::size_t>::max() - kAlignment;

}  // namespace

Arena::Arena(std::size_t bytes) : range_(bytes), gaps_(range_.size()) {}

void* Arena::allocate(std::size_t bytes) {
  if (bytes == 0 || bytes > kMostBytes) return nullptr;
  const std::lock_guard lock(mutex_);
  gaps_.make_room_for(blocks_.size() + 1);
  const auto offset = gaps_.take_first(aligned(bytes));
  return offset ? open_block({*offset, aligned(bytes)}) : nullptr;
}

void* Arena::allocate_at(std::size_t offset, std::size_t bytes) {
  if (bytes == 0 || bytes > kMostBytes) return nullptr;
  const std::lock_guard lock(mutex_);
  gaps_.make_room_for(blocks_.size() + 1);
  const Extent wanted{offset, aligned(bytes)};
  return gaps_.take(wanted) ? open_block(wanted) : nullptr;
}

void* Arena::open_block(Extent extent) {
  void* block = range_.begin() + extent.offset;
  if (!range_.open(extent.end())) {
    gaps_.give_back(extent);
    return nullptr;
  }
  try {
    blocks_.emplace(block, extent);
  } catch (const std::bad_alloc&) {
    gaps_.give_back(extent);
    throw;
  }
  bytes_in_use_ += extent.bytes;
  resident_end_ = std::max(resident_end_, extent.end());
  period_end_ = std::max(period_end_, extent.end());
  unpoison(block, extent.bytes);
  return block;
}

void Arena::free(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  const Extent extent = found->second;
  blocks_.erase(found);
  bytes_in_use_ -= extent.bytes;
  poison(block, extent.bytes);
  gaps_.give_back(extent);
  if (Clock::now() - period_start_ > kPeriod) begin_period();
}

void Arena::give_back_free() {
  const std::lock_guard lock(mutex_);
  give_back_beyond(0);
}

void Arena::end_period() {
  const std::lock_guard lock(mutex_);
  begin_period();
}

void Arena::begin_period() {
  give_back_beyond(std::max(period_end_, last_period_end_));
  last_period_end_ = period_end_;
  period_end_ = gaps_.end_of_taken();
  period_start_ = Clock::now();
}

void Arena::give_back_beyond(std::size_t offset) {
  for (const Extent& gap : gaps_.all()) {
    const std::size_t first = std::max(gap.offset, offset);
    const std::size_t end = std::min(gap.end(), resident_end_);
    if (first < end) range_.give_back(first, end - first);
  }
  resident_end_ = std::min(resident_end_, std::max(offset, gaps_.end_of_taken()));
}

std::size_t Arena::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

}  // namespace gradrecomp::arena
