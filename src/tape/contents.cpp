#include "tape/contents.h"

#include <algorithm>
#include <limits>

#include "tape/aten/bytes.h"
#include "tape/aten/heap_blocks.h"
#include "tape/aten/lent_memory.h"
#include "tape/geometry/geometry.h"
#include "tape/prints/byte_runs.h"

namespace gradrecomp::tape {
namespace {

constexpr std::int64_t kPage = 4096;

Extent whole(const c10::Storage& storage) { return {0, bytes_in(storage)}; }

}  // namespace

Extent extent_read(const Op& op, const Read& read) {
  if (!reads_whole(op, read)) return read.geometry->extent();
  return {0, std::numeric_limits<std::int64_t>::max()};
}

bool is_readable(const c10::Storage& memory, const Geometry& shown) {
  const auto* const begin = static_cast<const char*>(memory.data());
  return ByteRuns(shown, kPage).all_of([&](Extent run) {
    return is_readable(begin + run.begin, size_of(run));
  });
}

void copy_shown(const c10::Storage& from, const c10::Storage& to, const Geometry& shown) {
  const auto* const source = static_cast<const char*>(from.data());
  auto* const target = static_cast<char*>(to.mutable_data());
  ByteRuns(shown, kPage).all_of([&](Extent run) {
    std::copy(source + run.begin, source + run.end, target + run.begin);
    return true;
  });
}

void Contents::print(ValueId value, const c10::Storage& storage, const Geometry& geometry,
                     Look look) {
  known_[value] = {Known{Print(storage, whole(storage), geometry, look)}};
}

void Contents::print_after_write(ValueId value, ValueId before, const c10::Storage& storage,
                                 const Geometry& written) {
  const auto old = known_.find(before);
  std::vector<Known> known = std::move(old->second);
  known_.erase(old);
  const auto whole = std::ranges::find_if(known, is_of_every_bit);
  if (whole == known.end() || !whole->print.is_of_size(storage)) {
    return print(value, storage, written, Look::whole);
  }
  whole->print.follow_write(storage, written);
  known_[value] = {Known{std::move(whole->print)}};
}

void Contents::print_shown(ValueId value, const c10::Storage& storage, const Reading& reading,
                           Look look) {
  constexpr std::ptrdiff_t kMostSampled = 3;
  std::vector<Known>& known = known_[value];
  const Extent extent = extent_to_print(known, storage, reading);
  const auto num_of_the_same =
      std::ranges::count(known, extent, [](const Known& other) { return other.print.extent(); });
  if (num_of_the_same >= kMostSampled) look = Look::whole;
  known.push_back(Known{Print(storage, extent, reading.shown, look)});
}

// Parameters in one buffer are printed one by one, as are the slots of a ring: the program may
// write to their neighbours. Parts that overlap are printed together, with rows as each tensor has
// them, and all of their words once that has happened a few times. Where more overlap, as those of
// a batch that is read token by token, or where they are many, all of the storage is printed,
// unless it may have gaps.
Extent Contents::extent_to_print(const std::vector<Known>& known, const c10::Storage& storage,
                                 const Reading& reading) {
  constexpr std::size_t kMostApart = 1000;
  constexpr int kMostJoined = 32;
  constexpr int kMostJoinedOfLarge = 4;
  const Extent shown = reading.shown.extent();
  if (reading.reads_beyond) return whole(storage);
  Extent extent = shown;
  int num_joined = 0;
  for (const Known& other : known) {
    if (!other.print.overlaps(shown)) continue;
    extent = hull(extent, other.print.extent());
    ++num_joined;
  }
  const bool is_large = bytes_in(storage) > Print::kSmallBytes;
  const bool are_many =
      known.size() >= kMostApart || num_joined > (is_large ? kMostJoinedOfLarge : kMostJoined);
  return are_many && !reading.may_have_gaps ? whole(storage) : extent;
}

bool Contents::knows(ValueId value, const Geometry& shown, bool reads_beyond, Look look) const {
  const Extent extent = shown.extent();
  return std::ranges::any_of(known_.at(value), [&](const Known& known) {
    if (!known.print.covers(extent)) return false;
    const bool is_thorough = look == Look::sampled || known.print.is_whole();
    return is_thorough && known.print.is_laid_out_for(shown) &&
           (!reads_beyond || known.print.is_of_all());
  });
}

bool Contents::knows_whole(ValueId value) const {
  return std::ranges::any_of(known_.at(value), is_of_every_bit);
}

bool Contents::is_of_every_bit(const Known& known) {
  return known.print.is_whole() && known.print.is_of_all();
}

bool Contents::fits(ValueId value, const c10::Storage& storage) const {
  return std::ranges::all_of(known_.at(value),
                             [&](const Known& known) { return known.print.fits(storage); });
}

bool Contents::fits(ValueId value, const c10::Storage& storage, const Geometry& shown) {
  const Extent extent = shown.extent();
  return std::ranges::all_of(known_.at(value), [&](Known& known) {
    if (!known.print.overlaps(extent)) return known.print.is_of_size(storage);
    refine_for(known, storage, shown);
    return known.print.fits(storage, shown);
  });
}

bool Contents::fits_in_sweep(ValueId value, const c10::Storage& storage, const Geometry& shown,
                             std::int32_t sweep) {
  const Extent extent = shown.extent();
  return std::ranges::all_of(known_.at(value), [&](Known& known) {
    if (!known.print.overlaps(extent)) return known.print.is_of_size(storage);
    refine_for(known, storage, shown);
    return known.print.all_blocks_of(
        shown, [&](Print::Blocks blocks) { return fits_in_sweep(known, blocks, storage, sweep); });
  });
}

bool Contents::fits_in_sweep(ValueId value, const c10::Storage& storage, std::int32_t sweep) {
  return std::ranges::all_of(known_.at(value), [&](Known& known) {
    return fits_in_sweep(known, known.print.all(), storage, sweep);
  });
}

bool Contents::fits_in_sweep(Known& known, Print::Blocks blocks, const c10::Storage& storage,
                             std::int32_t sweep) {
  if (!known.print.is_of_size(storage)) return false;
  known.last_sweeps.resize(static_cast<std::size_t>(known.print.all().end));
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    std::int32_t& last_sweep = known.last_sweeps[static_cast<std::size_t>(block)];
    if (last_sweep == sweep) continue;
    if (!known.print.fits(storage, {block, block + 1})) return false;
    last_sweep = sweep;
  }
  return true;
}

// It takes one look at all, and another, after which each such tensor takes a look at its own.
void Contents::refine_for(Known& known, const c10::Storage& storage, const Geometry& shown) {
  if (!known.print.is_coarse_for(shown) || !known.print.fits(storage)) return;
  known.print.refine(storage);
  known.last_sweeps.clear();
}

std::int64_t Contents::bytes() const {
  using Slot = std::pair<ValueId, std::vector<Known>>;
  std::int64_t bytes = block_bytes(known_.bucket_count() * sizeof(Slot));
  for (const auto& [value, prints] : known_) {
    bytes += block_bytes_of(prints);
    for (const Known& known : prints) {
      bytes += block_bytes_of(known.last_sweeps) +
               block_bytes(known.print.num_hashes() * sizeof(std::uint64_t));
    }
  }
  return bytes;
}

}  // namespace gradrecomp::tape
