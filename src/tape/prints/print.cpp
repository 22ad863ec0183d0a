#include "tape/prints/print.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "kernels/arithmetic/hash.h"
#include "tape/aten/bytes.h"

namespace gradrecomp::tape {
namespace {

using Word = std::uint64_t;

constexpr std::int64_t kWordBytes = sizeof(Word);
constexpr std::int64_t kMostWordsAStretch = 512;  // a page of 4 KiB
constexpr std::int64_t kFewestWordsAStretch = 16;

// Each step is a bijection, so that no single word can change unseen.
Word step(Word hash, Word word) { return kernels::hash_step(hash, word); }

Word word_at(const char* bytes, std::int64_t position) {
  Word word = 0;
  std::memcpy(&word, bytes + position * kWordBytes, kWordBytes);
  return word;
}

Word tail_of(const char* bytes, std::int64_t num_bytes) {
  Word word = 0;
  std::memcpy(&word, bytes + num_bytes / kWordBytes * kWordBytes,
              static_cast<std::size_t>(num_bytes % kWordBytes));
  return word;
}

// Independent lanes, as a multiplication waits for the one before it.
Word hash_of_all(const char* bytes, std::int64_t num_words) {
  constexpr std::int64_t kLanes = 8;
  std::array<Word, kLanes> lanes = {1, 2, 3, 4, 5, 6, 7, 8};
  std::int64_t i = 0;
  for (; i + kLanes <= num_words; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = step(lanes[lane], word_at(bytes, i + lane));
    }
  }
  Word hash = 0;
  for (const Word lane : lanes) hash = step(hash, lane);
  for (; i < num_words; ++i) hash = step(hash, word_at(bytes, i));
  return hash;
}

/// A step from word to word that meets each of `count` before it repeats one.
std::int64_t stride_through(std::int64_t count) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  auto stride = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(static_cast<double>(count) * kGoldenRatio));
  while (std::gcd(stride, count) != 1) ++stride;
  return stride;
}

/// Below `count`, at no regular distances for positions side by side.
std::int64_t irregular(std::int64_t position, std::int64_t count) {
  if (count == 1) return 0;
  const Word mixed = step(0, static_cast<Word>(position) + 1) >> 32;
  return static_cast<std::int64_t>((mixed * static_cast<Word>(count)) >> 32);
}

std::int64_t parts_of(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

constexpr std::int64_t kFlatRowBytes = 1024;    // of memory that has no rows of its own
constexpr std::int64_t kFewestJoinedRows = 16;  // that have to be left when narrow ones are joined
constexpr std::int64_t kFineBytes = 1024;       // of a small block

struct Dimension {
  std::int64_t stride = 1;
  std::int64_t size = 1;
};

/// But for those along which nothing moves.
c10::SmallVector<Dimension, 6> inner_first(const Geometry& geometry) {
  c10::SmallVector<Dimension, 6> dimensions;
  for (std::size_t i = 0; i < geometry.sizes().size(); ++i) {
    if (geometry.sizes()[i] <= 1 || geometry.strides()[i] <= 0) continue;
    dimensions.push_back({geometry.strides()[i], geometry.sizes()[i]});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  return dimensions;
}

}  // namespace

bool Print::can_look_at(const c10::Storage& storage) { return storage.device().is_cpu(); }

Print::Rows Print::rows_of(const Geometry& geometry) {
  const auto dimensions = inner_first(geometry);
  const auto element_bytes = static_cast<std::int64_t>(c10::elementSize(geometry.scalar_type()));
  std::int64_t num_rows = 1;
  for (const Dimension& dimension : dimensions) num_rows *= dimension.size;
  std::int64_t length = 1;
  const auto* next = dimensions.begin();
  for (; next != dimensions.end() && next->stride == length; ++next) {
    const bool is_wide = length * element_bytes >= kFewestWordsAStretch * kWordBytes;
    if (length > 1 && (is_wide || num_rows / next->size < kFewestJoinedRows)) break;
    length *= next->size;
    num_rows /= next->size;
  }
  if (length * element_bytes < kWordBytes) return {kFlatRowBytes, 0};
  if (next == dimensions.end()) return {length * element_bytes, 0};
  const std::int64_t pitch = next->stride;
  if (length > pitch) return {kFlatRowBytes, 0};
  const bool has_next = pitch < size_of(geometry.extent()) / element_bytes;
  return {length * element_bytes, has_next ? pitch * element_bytes : 0};
}

Print::Print(const c10::Storage& storage, Extent extent, const Geometry& geometry, Look look)
    : storage_bytes_(bytes_in(storage)), extent_(extent) {
  extent_.end = std::min(extent_.end, storage_bytes_);
  if (look == Look::sampled && size_of(extent_) > kSmallBytes) {
    lay_out_samples(rows_of(geometry));
  }
  lay_out_blocks(kSmallBytes);
  read_blocks(storage, all());
}

void Print::refine(const c10::Storage& storage) {
  is_fine_ = true;
  lay_out_blocks(kFineBytes);
  read_blocks(storage, all());
}

void Print::read_blocks(const c10::Storage& storage, Blocks blocks) {
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    hashes_[static_cast<std::size_t>(block)] = read(storage, block);
  }
}

bool Print::is_laid_out_for(const Geometry& geometry) const {
  const Extent shown = geometry.extent();
  if (!covers(shown)) return false;
  if (is_whole()) return true;
  const Rows rows = rows_of(geometry);
  if (rows_.bytes > rows.bytes) return false;
  if (rows.pitch == 0) return true;
  // Where a row does not run over the end of one of ours, it meets a sample as ours do.
  return rows_.pitch == rows.pitch &&
         (shown.begin - extent_.begin) % rows.pitch + rows.bytes <= rows.pitch;
}

bool Print::is_of_size(const c10::Storage& storage) const {
  return bytes_in(storage) == storage_bytes_;
}

// Not all narrow rows can be met, but one in every few is. Through the stretches of wide rows
// samples go on from row to row, so that, where there are as many rows, they meet each column.
void Print::lay_out_samples(Rows rows) {
  if (rows.pitch == 0 && 2 * rows.bytes > size_of(extent_)) rows.bytes = kFlatRowBytes;
  if (rows.pitch == 0) rows.pitch = rows.bytes;
  rows_ = rows;
  const std::int64_t row_words = std::max(parts_of(rows.bytes, kWordBytes), kFewestWordsAStretch);
  const std::int64_t pitch_words = parts_of(rows.pitch, kWordBytes);
  const std::int64_t num_rows = parts_of(size_of(extent_), rows.pitch);
  const std::int64_t most_words = std::min({row_words, num_rows, kMostWordsAStretch});
  rows_a_sample_ = parts_of(kFewestWordsAStretch, pitch_words);
  stretch_words_ = parts_of(pitch_words, parts_of(pitch_words, most_words));
  stride_ = stride_through(stretch_words_);
}

// A long row is cut between stretches, as tensors may show a part of each row alone. What is left
// over of an extent or row belongs to its last block.
void Print::lay_out_blocks(std::int64_t least_bytes) {
  const std::int64_t stretch_bytes = stretch_words_ * kWordBytes;
  blocks_a_row_ = 0;
  if (is_whole()) {
    block_bytes_ = least_bytes;
  } else if (rows_.pitch >= 2 * std::max(least_bytes, stretch_bytes)) {
    block_bytes_ = parts_of(least_bytes, stretch_bytes) * stretch_bytes;
    blocks_a_row_ = std::max<std::int64_t>(1, rows_.pitch / block_bytes_);
  } else {
    const std::int64_t sample_bytes = rows_a_sample_ * rows_.pitch;
    block_bytes_ = parts_of(least_bytes, sample_bytes) * sample_bytes;
  }
  const std::int64_t size = size_of(extent_);
  std::int64_t count = std::max<std::int64_t>(size > 0 ? 1 : 0, size / block_bytes_);
  if (blocks_a_row_ > 0) count = block_at(size - kWordBytes) + 1;
  hashes_.resize(static_cast<std::size_t>(count));
}

bool Print::fits(const c10::Storage& storage) const { return fits(storage, all()); }

bool Print::fits(const c10::Storage& storage, Blocks blocks) const {
  if (!is_of_size(storage)) return false;
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    if (read(storage, block) != hashes_[static_cast<std::size_t>(block)]) return false;
  }
  return true;
}

bool Print::fits(const c10::Storage& storage, const Geometry& shown) const {
  if (!is_of_size(storage)) return false;
  return all_blocks_of(shown, [&](Blocks blocks) { return fits(storage, blocks); });
}

void Print::follow_write(const c10::Storage& storage, const Geometry& written) {
  all_blocks_of(written, [&](Blocks blocks) {
    read_blocks(storage, blocks);
    return true;
  });
}

bool Print::is_coarse_for(const Geometry& shown) const {
  if (is_fine_ || all().end == 1) return false;
  const auto revealed = [](const ByteRuns& runs, std::int64_t block_bytes) {
    return runs.count() * std::max(runs.length(), block_bytes);
  };
  const ByteRuns fine(shown, kFineBytes);
  if (fine.count() <= 1) return false;  // no gaps
  return 2 * revealed(fine, kFineBytes) <= revealed(ByteRuns(shown, block_bytes_), block_bytes_);
}

/// By bytes from the beginning of the extent, beyond the last block, too.
std::int64_t Print::block_at(std::int64_t position) const {
  if (blocks_a_row_ == 0) return position / block_bytes_;
  const std::int64_t in_row = position % rows_.pitch / block_bytes_;
  return position / rows_.pitch * blocks_a_row_ + std::min(in_row, blocks_a_row_ - 1);
}

Print::Blocks Print::blocks_of(Extent extent) const {
  const std::int64_t begin = std::max(extent.begin, extent_.begin) - extent_.begin;
  const std::int64_t end = std::min(extent.end, extent_.end) - extent_.begin;
  if (begin >= end || hashes_.empty()) return {};
  const std::int64_t last = all().end - 1;
  return {std::min(block_at(begin), last), std::min(block_at(end - 1), last) + 1};
}

std::uint64_t Print::read(const c10::Storage& storage, std::int64_t block) const {
  const auto* bytes = static_cast<const char*>(storage.data()) + extent_.begin;
  if (blocks_a_row_ > 0) {
    const std::int64_t row = block / blocks_a_row_ * rows_.pitch;
    const std::int64_t begin = block % blocks_a_row_ * block_bytes_;
    const bool is_last = (block + 1) % blocks_a_row_ == 0;
    return hash_of_samples(bytes, {row, row + 1},
                           {begin, is_last ? rows_.pitch : begin + block_bytes_});
  }
  const std::int64_t begin = block * block_bytes_;
  const std::int64_t end = block + 1 == all().end ? size_of(extent_) : begin + block_bytes_;
  if (!is_whole()) return hash_of_samples(bytes, {begin, end}, {0, rows_.pitch});
  return step(hash_of_all(bytes + begin, (end - begin) / kWordBytes),
              tail_of(bytes + begin, end - begin));
}

/// Rows need not end where words do, nor storages where rows do. Among narrow ones it is not always
/// the same one that is met, as writes come at regular distances. Samples of narrow rows are many,
/// so none of them takes a division.
std::uint64_t Print::hash_of_samples(const char* bytes, Extent rows, Extent part_of_row) const {
  const std::int64_t last_word = size_of(extent_) - kWordBytes;
  const std::int64_t sample_bytes = rows_a_sample_ * rows_.pitch;
  const std::int64_t stretch_bytes = stretch_words_ * kWordBytes;
  std::int64_t sample = rows.begin / sample_bytes;
  std::int64_t word_in_stretch = sample % stretch_words_ * stride_ % stretch_words_;
  Word hash = 0;
  for (std::int64_t first = rows.begin; first < rows.end; first += sample_bytes, ++sample) {
    const std::int64_t row = first + irregular(sample, rows_a_sample_) * rows_.pitch;
    const std::int64_t offset = word_in_stretch * kWordBytes;
    for (std::int64_t stretch = part_of_row.begin; stretch < part_of_row.end;
         stretch += stretch_bytes) {
      const std::int64_t in_row = std::min(stretch + offset, rows_.pitch - kWordBytes);
      Word word = 0;
      std::memcpy(&word, bytes + std::min(row + in_row, last_word), kWordBytes);
      hash = step(hash, word);
    }
    word_in_stretch += stride_;
    if (word_in_stretch >= stretch_words_) word_in_stretch -= stretch_words_;
  }
  return hash;
}

}  // namespace gradrecomp::tape
