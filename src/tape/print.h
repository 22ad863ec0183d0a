#pragma once

#include <c10/core/Storage.h>

#include <cstdint>

#include "gradrecomp/version.h"
#include "tape/aten/geometry.h"

namespace gradrecomp::tape {

/// How much of a storage is looked at.
enum class Look : std::uint8_t { sampled, whole };

/// Tells what a storage of host memory contains from other contents.
///
/// Guarantees: a whole look, which storages up to kSmallBytes always get, sees every write that
///             changes a bit, but for one in 2^64 that changes several words. A sampled look sees
///             one word of every row and of every column, where rows are runs of the innermost
///             dimension, and no fewer than one word of every 4 KiB, nor more than one of 16.
class Print {
 public:
  static constexpr std::int64_t kSmallBytes = std::int64_t{64} << 10;

  Print() = default;
  /// `geometry` says where rows end.
  Print(const c10::Storage& storage, const Geometry& geometry, Look look);

  [[nodiscard]] bool fits(const c10::Storage& storage) const;
  [[nodiscard]] bool is_whole() const { return row_bytes_ == 0; }

  /// Whether the memory of `storage` can be looked at from the host, at once.
  static bool can_look_at(const c10::Storage& storage);

 private:
  [[nodiscard]] std::uint64_t read(const c10::Storage& storage) const;

  std::uint64_t hash_ = 0;
  std::int64_t num_bytes_ = 0;
  std::int64_t row_bytes_ = 0;  // 0: all words are read
};

}  // namespace gradrecomp::tape
