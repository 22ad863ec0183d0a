#pragma once

#include <cstdint>
#include <vector>

#include "segments.h"

namespace gradrecomp::plan {

/// A chain of segments and what the chain model says of it.
struct ChainPoint {
  std::vector<SegmentOption> chain = {};
  std::int64_t peak_bytes = 0;
  double cost = 0;
};

/// The front (peak against cost) of all ways to cover `num_blocks` blocks with these options.
///
/// Guarantees: with costs in `num_buckets` classes the smallest peak of each class; peaks fall and
///             costs rise from point to point.
/// Complexity: O(options * num_buckets) time.
/// Source:     see Note [ The chain of segments ] in chain_front.cpp.
std::vector<ChainPoint> chain_front(const std::vector<SegmentOption>& options, Index num_blocks,
                                    int num_buckets);

}  // namespace gradrecomp::plan
