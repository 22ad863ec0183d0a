#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <vector>

#include "gradrecomp/version.h"
#include "tape/aten/geometry.h"

namespace gradrecomp::tape {

/// How much of a storage is looked at.
enum class Look : std::uint8_t { sampled, whole };

/// Tells what a storage of host memory contains from other contents, block by block: what is read
/// or written through a small view is looked at alone.
///
/// Guarantees: a whole look, which storages up to kSmallBytes always get, sees every write that
///             changes a bit, but for one in 2^64 that changes several words. A sampled look sees
///             one word of every row and of every column, where rows are runs of the innermost
///             dimension, and no fewer than one word of every 4 KiB, nor more than one of 16.
class Print {
 public:
  static constexpr std::int64_t kSmallBytes = std::int64_t{64} << 10;

  /// Blocks from `begin` up to `end`, by number.
  struct Blocks {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  Print() = default;
  /// `geometry` says where rows end.
  Print(const c10::Storage& storage, const Geometry& geometry, Look look);

  [[nodiscard]] bool fits(const c10::Storage& storage) const;
  /// The same of some blocks alone.
  [[nodiscard]] bool fits(const c10::Storage& storage, Blocks blocks) const;
  [[nodiscard]] bool is_of_size(const c10::Storage& storage) const {
    return static_cast<std::int64_t>(storage.nbytes()) == num_bytes_;
  }
  [[nodiscard]] bool is_whole() const { return row_bytes_ == 0; }
  [[nodiscard]] Blocks all() const { return {0, static_cast<std::int64_t>(hashes_.size())}; }
  /// Those that reveal a write to these bytes.
  [[nodiscard]] Blocks blocks_of(Extent extent) const;

  /// Whether the memory of `storage` can be looked at from the host, at once.
  static bool can_look_at(const c10::Storage& storage);

 private:
  void lay_out_samples(std::int64_t row_bytes);
  [[nodiscard]] std::uint64_t read(const c10::Storage& storage, std::int64_t block) const;
  [[nodiscard]] std::uint64_t hash_of_samples(const char* bytes, Extent rows) const;

  std::vector<std::uint64_t> hashes_;  // of blocks
  std::int64_t num_bytes_ = 0;
  std::int64_t block_bytes_ = kSmallBytes;  // but of the last, which ends with the storage

  // For a sampled look, which takes one row in every few and from it a word of each window.
  std::int64_t row_bytes_ = 0;  // 0: all words are read
  std::int64_t rows_a_sample_ = 1;
  std::int64_t window_words_ = 1;
  std::int64_t stride_ = 1;  // in a window, from row to row
};

}  // namespace gradrecomp::tape
