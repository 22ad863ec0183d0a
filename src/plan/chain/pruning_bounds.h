#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "partial_plan.h"

namespace gradrecomp::plan {

/// Below which peak a partial plan may still beat a front that is known already.
///
/// The blocks before k retain at least some bytes for what they cost: a partial plan for the rest
/// with cost c is worth extending only if, for some cost d of theirs, its peak and these bytes stay
/// below the front at c + d.
class PruningBounds {
 public:
  PruningBounds(std::span<const Menu* const> menus, const std::vector<ChainPoint>& front,
                const ChainSize& size);

  /// For partial plans of the blocks from `block` on.
  [[nodiscard]] std::int64_t below(std::size_t block, double cost) const {
    return below_[block][bucket(cost)];
  }

 private:
  static constexpr std::size_t kNumBuckets = 256;
  using PerBucket = std::vector<std::int64_t>;  ///< of costs

  [[nodiscard]] std::size_t bucket(double cost) const {
    return std::min(kNumBuckets - 1, static_cast<std::size_t>(cost * buckets_per_cost_));
  }

  [[nodiscard]] PerBucket known_peaks(const std::vector<ChainPoint>& front) const;
  [[nodiscard]] PerBucket extended(const PerBucket& least, const Menu& menu) const;

  double buckets_per_cost_;
  std::vector<PerBucket> below_;
};

}  // namespace gradrecomp::plan
