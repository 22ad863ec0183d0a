#include "pruning_bounds.h"

// All rounding here is optimistic: costs fall to the lower end of their bucket, and a known peak
// counts from the bucket after its own.

namespace gradrecomp::plan {
namespace {

using PerBucket = std::vector<std::int64_t>;

/// Lowers `known` so that no plan above `max_peak_bytes` is looked for, nor one that costs more
/// than a known plan within it.
void want_within(std::int64_t max_peak_bytes, PerBucket& known) {
  bool found = false;
  for (std::int64_t& peak : known) {
    const bool within = peak <= max_peak_bytes;
    peak = found ? 0 : std::min(peak, max_peak_bytes + 1);
    found = found || within;
  }
}

PerBucket thresholds(const PerBucket& known, const PerBucket& least) {
  PerBucket below(known.size(), 0);
  for (std::size_t c = 0; c < known.size(); ++c) {
    for (std::size_t d = 0; c + d < known.size(); ++d) {
      if (least[d] < kNoPeak) below[c] = std::max(below[c], known[c + d] - least[d]);
    }
  }
  return below;
}

}  // namespace

PruningBounds::PruningBounds(std::span<const Menu* const> menus,
                             const std::vector<ChainPoint>& front, const ChainSize& size)
    : buckets_per_cost_((kNumBuckets - 1) / size.max_cost) {
  PerBucket known = known_peaks(front);
  if (size.max_peak_bytes < kNoPeak) want_within(size.max_peak_bytes, known);
  PerBucket least(kNumBuckets, 0);  // retained by the blocks before the current one
  for (const Menu* menu : menus) {
    below_.push_back(thresholds(known, least));
    least = extended(least, *menu);
  }
}

/// Per bucket, the least peak that a known plan reaches at a lower cost.
PruningBounds::PerBucket PruningBounds::known_peaks(const std::vector<ChainPoint>& front) const {
  PerBucket peaks(kNumBuckets, kNoPeak);
  for (const ChainPoint& point : front) {
    const std::size_t next = bucket(point.cost) + 1;
    if (next < kNumBuckets) peaks[next] = std::min(peaks[next], point.peak_bytes);
  }
  for (std::size_t b = 1; b < kNumBuckets; ++b) peaks[b] = std::min(peaks[b], peaks[b - 1]);
  return peaks;
}

/// Per bucket, the least bytes retained by the blocks of `least` and one more, at a cost of at most
/// the bucket's end.
PruningBounds::PerBucket PruningBounds::extended(const PerBucket& least, const Menu& menu) const {
  PerBucket made(kNumBuckets, kNoPeak);
  menu.for_each([&](const Option& option) {
    const std::size_t from = bucket(option.cost);
    for (std::size_t b = from; b < kNumBuckets; ++b) {
      made[b] = std::min(made[b], least[b - from] + option.retained_bytes);
    }
  });
  return made;
}

}  // namespace gradrecomp::plan
