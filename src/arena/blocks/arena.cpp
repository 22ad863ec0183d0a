#include "arena/blocks/arena.h"

#include <algorithm>
#include <limits>
#include <new>

#include "arena/blocks/alignment.h"

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

// Note [ Pages between blocks ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Where blocks of many sizes come and go, the lowest place with room may be beyond all others while
// gaps below it are too short, and pages in these hold memory for nothing. Where pages hold more
// than a 32nd beyond the most that blocks have come to, gaps give some back, the highest first, as
// blocks settle low.
//
// Those pages are faulted in again when a block needs them, which takes 1.5 us for each 4 KiB. So
// no more is given back than a 16th of what blocks have taken. In a plain step of a U-Net 60 MiB
// are, a hundredth of its time; in one of a ResNet, BERT or ViT nothing is.

constexpr std::size_t kSpareShare = 32;
constexpr std::size_t kSpareBytes = std::size_t{1} << 20;
constexpr std::size_t kThinningShare = 16;
constexpr std::size_t kSavedUpShare = 16;  // of the most that blocks have come to
constexpr std::size_t kLeastThinning = std::size_t{256} << 10;  // by one call to the system

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
    resident_.add(extent);
  } catch (const std::bad_alloc&) {
    blocks_.erase(block);
    gaps_.give_back(extent);
    throw;
  }
  bytes_in_use_ += extent.bytes;
  period_.bytes = std::max(period_.bytes, bytes_in_use_);
  period_.end = std::max(period_.end, extent.end());
  unpoison(block, extent.bytes);
  thin_out(extent.bytes);
  return block;
}

/// After a block of `bytes` was taken.
void Arena::thin_out(std::size_t bytes) {
  const std::size_t most = std::max(period_.bytes, last_period_.bytes);
  const std::size_t allowed = most + most / kSpareShare + kSpareBytes;
  thinning_bytes_ = std::min(thinning_bytes_ + bytes / kThinningShare, most / kSavedUpShare);
  const auto& gaps = gaps_.all();
  for (auto gap = gaps.rbegin(); gap != gaps.rend(); ++gap) {
    if (thinning_bytes_ < kLeastThinning || resident_.bytes() <= allowed) return;
    if (resident_.bytes_in(*gap) < kLeastThinning) continue;
    const std::size_t wanted = std::min(resident_.bytes() - allowed, thinning_bytes_);
    thinning_bytes_ -= give_back(resident_.last_in(*gap, wanted));
  }
  thinning_bytes_ = 0;  // so that gaps are not looked through again for the next block
}

/// Returns how much of it held memory. Where there is none for its own records, `free` stays.
std::size_t Arena::give_back(Extent free) noexcept {
  try {
    const std::size_t held = resident_.remove(free);
    range_.give_back(free.offset, free.bytes);
    return held;
  } catch (const std::bad_alloc&) {
    return 0;
  }
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
  give_back_beyond(std::max(period_.end, last_period_.end));
  last_period_ = period_;
  period_ = {bytes_in_use_, gaps_.end_of_taken()};
  period_start_ = Clock::now();
}

void Arena::give_back_beyond(std::size_t offset) {
  for (const Extent& gap : gaps_.all()) {
    const std::size_t first = std::max(gap.offset, offset);
    const std::size_t end = std::min(gap.end(), resident_.end());
    if (first < end) give_back({first, end - first});
  }
}

std::size_t Arena::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

std::size_t Arena::resident_bytes() const {
  const std::lock_guard lock(mutex_);
  return resident_.bytes();
}

}  // namespace gradrecomp::arena
