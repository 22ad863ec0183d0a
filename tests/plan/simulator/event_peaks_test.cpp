#include "plan/simulator/event_peaks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace gradrecomp::plan {
namespace {

/// The same without chunks.
PeakSum summed(const std::vector<std::int64_t>& peaks, std::size_t begin, std::size_t end,
               std::int64_t offset_bytes, std::int64_t target_bytes) {
  PeakSum sum;
  for (std::size_t t = begin; t < end; ++t) {
    sum.peak_bytes = std::max(sum.peak_bytes, peaks[t] + offset_bytes);
    sum.excess_bytes += std::max<std::int64_t>(0, peaks[t] + offset_bytes - target_bytes);
  }
  return sum;
}

TEST(EventPeaks, SumsAnyEventsAsIfOneByOne) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  const std::vector<std::size_t> ends{1, 90, 90, 131, 163, 500};
  constexpr std::int64_t kHigh = 100'000;  // so that none becomes negative
  std::vector<std::int64_t> known(ends.back(), kHigh);
  EventPeaks peaks;
  peaks.cut(ends);
  peaks.set(0, known);
  for (int i = 0; i < 3000; ++i) {
    std::size_t begin = below(known.size() + 1);
    std::size_t end = below(known.size() + 1);
    if (begin > end) std::swap(begin, end);
    const auto bytes = static_cast<std::int64_t>(below(200)) - 100;
    if (i % 3 == 0) {
      for (std::size_t t = begin; t < end; ++t) known[t] += bytes;
      peaks.raise(begin, end, bytes);
      ASSERT_GE(*std::ranges::min_element(known), 0);
    } else if (i % 7 == 0) {
      std::vector<std::int64_t> made(end - begin);
      for (auto& peak : made) peak = kHigh + static_cast<std::int64_t>(below(1000));
      std::ranges::copy(made, known.begin() + static_cast<std::ptrdiff_t>(begin));
      peaks.set(begin, made);
    } else if (i % 11 == 0) {
      peaks.aim_at(kHigh + static_cast<std::int64_t>(below(1000)));
    }
    PeakSum sum;
    const std::int64_t offset_bytes = i % 2 == 0 ? 0 : bytes;
    peaks.add_to(sum, begin, end, offset_bytes);
    const PeakSum expected = summed(known, begin, end, offset_bytes, peaks.target_bytes());
    ASSERT_EQ(sum.peak_bytes, expected.peak_bytes) << i;
    ASSERT_EQ(sum.excess_bytes, expected.excess_bytes) << i;
    const PeakSum whole = summed(known, 0, known.size(), 0, peaks.target_bytes());
    ASSERT_EQ(peaks.sum().peak_bytes, whole.peak_bytes) << i;
    ASSERT_EQ(peaks.sum().excess_bytes, whole.excess_bytes) << i;
  }
}

}  // namespace
}  // namespace gradrecomp::plan
