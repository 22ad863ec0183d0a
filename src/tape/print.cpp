#include "tape/print.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace gradrecomp::tape {
namespace {

using Word = std::uint64_t;

constexpr std::int64_t kWordBytes = sizeof(Word);
constexpr std::int64_t kMostWordsASample = 512;  // a page of 4 KiB
constexpr std::int64_t kFewestWordsASample = 16;
constexpr Word kFactor = 0x9e3779b97f4a7c15u;

// Each step is a bijection, so that no single word can change unseen.
Word step(Word hash, Word word) {
  hash = (hash ^ word) * kFactor;
  return hash ^ (hash >> 29);
}

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

/// A step from column to column that meets each of `num_columns` before it repeats one.
std::int64_t stride_through(std::int64_t num_columns) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  auto stride = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(static_cast<double>(num_columns) * kGoldenRatio));
  while (std::gcd(stride, num_columns) != 1) ++stride;
  return stride;
}

/// Below `count`, at no regular distances for positions side by side.
std::int64_t irregular(std::int64_t position, std::int64_t count) {
  if (count == 1) return 0;
  const Word mixed = step(0, static_cast<Word>(position) + 1) >> 32;
  return static_cast<std::int64_t>(mixed % static_cast<Word>(count));
}

/// Goes down the rows and, from row to row, through the columns. Rows need not end where words do.
/// Of narrow rows, of which not all can be met, one of each few is: not always the same of them, as
/// writes come at regular distances.
Word hash_of_samples(const char* bytes, std::int64_t num_bytes, std::int64_t row_bytes) {
  const std::int64_t num_words = num_bytes / kWordBytes;
  const std::int64_t num_rows = num_bytes / row_bytes;
  const std::int64_t num_columns = (row_bytes + kWordBytes - 1) / kWordBytes;
  const std::int64_t stride = stride_through(num_columns);
  const std::int64_t count =
      std::clamp(std::max(num_rows, num_columns), num_words / kMostWordsASample,
                 num_words / kFewestWordsASample);
  // Fewer rows than samples are gone through again.
  const std::int64_t rows_a_sample = std::max<std::int64_t>(1, num_rows / count);
  Word hash = 0;
  std::int64_t column = 0;
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t met = (row + irregular(i, rows_a_sample)) % num_rows;
    const std::int64_t byte = met * row_bytes + column * kWordBytes;
    Word word = 0;
    std::memcpy(&word, bytes + std::min(byte, num_bytes - kWordBytes), kWordBytes);
    hash = step(hash, word);
    column = (column + stride) % num_columns;
    row = (row + rows_a_sample) % num_rows;
  }
  return hash;
}

/// Length of the runs of neighbours in memory that are a row of the tensor.
std::int64_t row_bytes_of(const Geometry& geometry) {
  const auto sizes = geometry.sizes();
  const auto strides = geometry.strides();
  std::int64_t length = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] == 1 && sizes[i] > 1) length = sizes[i];
  }
  return length * static_cast<std::int64_t>(c10::elementSize(geometry.scalar_type()));
}

}  // namespace

bool Print::can_look_at(const c10::Storage& storage) { return storage.device().is_cpu(); }

Print::Print(const c10::Storage& storage, const Geometry& geometry, Look look)
    : num_bytes_(static_cast<std::int64_t>(storage.nbytes())) {
  if (look == Look::sampled && num_bytes_ > kSmallBytes) {
    constexpr std::int64_t kFlatRowBytes = 1024;  // of memory that has no rows of its own
    const std::int64_t row_bytes = row_bytes_of(geometry);
    const bool is_flat = row_bytes < kWordBytes || row_bytes > num_bytes_ / 2;
    row_bytes_ = is_flat ? kFlatRowBytes : row_bytes;
  }
  hash_ = read(storage);
}

bool Print::fits(const c10::Storage& storage) const {
  return static_cast<std::int64_t>(storage.nbytes()) == num_bytes_ && read(storage) == hash_;
}

std::uint64_t Print::read(const c10::Storage& storage) const {
  if (num_bytes_ == 0) return 0;
  const auto* bytes = static_cast<const char*>(storage.data());
  if (row_bytes_ > 0) return hash_of_samples(bytes, num_bytes_, row_bytes_);
  return step(hash_of_all(bytes, num_bytes_ / kWordBytes), tail_of(bytes, num_bytes_));
}

}  // namespace gradrecomp::tape
