#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::plan {

/// How high live bytes go in some events.
struct PeakSum {
  std::int64_t peak_bytes = 0;
  std::int64_t excess_bytes = 0;  ///< sum over the events of what is above the target

  void add(std::int64_t peak, std::int64_t target_bytes) {
    peak_bytes = peak > peak_bytes ? peak : peak_bytes;
    excess_bytes += peak > target_bytes ? peak - target_bytes : 0;
  }
  void add(const PeakSum& other) {
    peak_bytes = other.peak_bytes > peak_bytes ? other.peak_bytes : peak_bytes;
    excess_bytes += other.excess_bytes;
  }
};

/// The peak of each event of a step, with sums over chunks of them, so that many events can be
/// summed without a look at each.
class EventPeaks {
 public:
  /// Events from 0 to the last of `ends`, which rise. Chunks end there, and between.
  void cut(std::span<const std::size_t> ends);

  /// What is above counts as excess from now on.
  void aim_at(std::int64_t target_bytes);
  [[nodiscard]] std::int64_t target_bytes() const { return target_bytes_; }

  /// Of all events.
  [[nodiscard]] PeakSum sum() const;
  /// Adds the sum of events `begin` to `end`, each `offset_bytes` higher, to `sum`.
  void add_to(PeakSum& sum, std::size_t begin, std::size_t end, std::int64_t offset_bytes) const;

  /// Changes the peaks of events from `begin` on.
  void set(std::size_t begin, std::span<const std::int64_t> peaks);
  /// Changes those of events `begin` to `end` by `bytes`.
  void raise(std::size_t begin, std::size_t end, std::int64_t bytes);

 private:
  struct Chunk {
    std::size_t begin, end;
    PeakSum sum;
  };

  void update(Chunk& chunk) const;
  void update(std::size_t begin, std::size_t end);

  std::vector<std::int64_t> peaks_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> chunk_of_;  ///< by event
  std::int64_t target_bytes_ = 0;
};

}  // namespace gradrecomp::plan
