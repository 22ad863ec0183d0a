#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <vector>

#include "gradrecomp/version.h"
#include "tape/geometry/geometry.h"
#include "tape/prints/byte_runs.h"

namespace gradrecomp::tape {

/// How much of a storage is looked at.
enum class Look : std::uint8_t { sampled, whole };

/// Tells what some bytes of a storage of host memory contain from other contents, block by block:
/// what is read or written through a view is looked at alone, but for the rest of its blocks.
///
/// Guarantees: a whole look, which up to kSmallBytes always get, sees every write that changes a
///             bit, but for one in 2^64 that changes several words. A sampled look sees one word of
///             every row of at least 16 words and of every column of the tensor that it was laid
///             out for, and no fewer than one word of every 4 KiB. It reads no more than one of 16,
///             or of as many as there are rows. Rows are runs of the innermost dimension; narrower
///             ones that lie side by side are taken together while 16 are left.
class Print {
 public:
  static constexpr std::int64_t kSmallBytes = std::int64_t{64} << 10;

  /// Blocks from `begin` up to `end`, by number.
  struct Blocks {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  Print() = default;
  /// Of what `extent` holds; `geometry` says where rows end.
  Print(const c10::Storage& storage, Extent extent, const Geometry& geometry, Look look);

  [[nodiscard]] bool fits(const c10::Storage& storage) const;
  /// The same of some blocks alone.
  [[nodiscard]] bool fits(const c10::Storage& storage, Blocks blocks) const;
  /// The same of the blocks that a tensor shows some of.
  [[nodiscard]] bool fits(const c10::Storage& storage, const Geometry& shown) const;
  /// Looks again at those, which a write through a tensor of this geometry has changed. `storage`
  /// must be as large as before.
  void follow_write(const c10::Storage& storage, const Geometry& written);
  [[nodiscard]] Extent extent() const { return extent_; }
  [[nodiscard]] bool is_of_size(const c10::Storage& storage) const;
  /// How many hashes it consists of.
  [[nodiscard]] std::size_t num_hashes() const { return hashes_.capacity(); }
  [[nodiscard]] bool is_whole() const { return rows_.pitch == 0; }
  /// Whether it is of the storage from end to end.
  [[nodiscard]] bool is_of_all() const { return covers({0, storage_bytes_}); }
  [[nodiscard]] bool covers(Extent extent) const { return tape::covers(extent_, extent); }
  [[nodiscard]] bool overlaps(Extent extent) const { return tape::overlap(extent_, extent); }
  /// Whether it sees a write to any row or column of a tensor of this geometry.
  [[nodiscard]] bool is_laid_out_for(const Geometry& geometry) const;
  [[nodiscard]] Blocks all() const { return {0, static_cast<std::int64_t>(hashes_.size())}; }
  /// Those that reveal a write to these bytes.
  [[nodiscard]] Blocks blocks_of(Extent extent) const;
  /// Calls `visit(Blocks)` for those of each run of bytes that a tensor shows until it returns
  /// false; tells whether it never did.
  template <typename Visit>
  bool all_blocks_of(const Geometry& shown, Visit&& visit) const {
    return ByteRuns(shown, block_bytes_).all_of([&](Extent run) { return visit(blocks_of(run)); });
  }
  /// Whether small blocks would reveal at most half of what the blocks of such a tensor do.
  [[nodiscard]] bool is_coarse_for(const Geometry& shown) const;
  /// Makes blocks small. `storage` must fit.
  void refine(const c10::Storage& storage);

  /// Whether the memory of `storage` can be looked at from the host, at once.
  static bool can_look_at(const c10::Storage& storage);

 private:
  /// Rows of a tensor, as above.
  struct Rows {
    std::int64_t bytes = 0;  ///< of one
    std::int64_t pitch = 0;  ///< bytes from one to the next; 0: there is no next
  };
  static Rows rows_of(const Geometry& geometry);
  void lay_out_samples(Rows rows);
  void lay_out_blocks(std::int64_t least_bytes);
  void read_blocks(const c10::Storage& storage, Blocks blocks);
  [[nodiscard]] std::int64_t block_at(std::int64_t position) const;
  [[nodiscard]] std::uint64_t read(const c10::Storage& storage, std::int64_t block) const;
  [[nodiscard]] std::uint64_t hash_of_samples(const char* bytes, Extent rows,
                                              Extent part_of_row) const;

  std::vector<std::uint64_t> hashes_;  // of blocks
  std::int64_t storage_bytes_ = 0;
  Extent extent_;
  std::int64_t block_bytes_ = kSmallBytes;  // but of the last, which ends with extent or row
  std::int64_t blocks_a_row_ = 0;           // 0: a block has whole rows
  bool is_fine_ = false;

  // For a sampled look, which takes one row in every few and from it a word of each stretch.
  Rows rows_;  // of no pitch: all words are read
  std::int64_t rows_a_sample_ = 1;
  std::int64_t stretch_words_ = 1;
  std::int64_t stride_ = 1;  // in a stretch, from row to row
};

}  // namespace gradrecomp::tape
