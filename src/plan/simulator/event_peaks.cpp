#include "plan/simulator/event_peaks.h"

#include <algorithm>

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kChunk = 32;

}  // namespace

void EventPeaks::cut(std::span<const std::size_t> ends) {
  chunks_.clear();
  chunk_of_.clear();
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const std::size_t count = std::max<std::size_t>(1, (end - begin + kChunk / 2) / kChunk);
    for (std::size_t i = 0; i < count && begin < end; ++i) {
      const std::size_t first = chunks_.empty() ? 0 : chunks_.back().end;
      const std::size_t last = begin + (end - begin) * (i + 1) / count;
      chunk_of_.resize(last, static_cast<std::uint32_t>(chunks_.size()));
      chunks_.push_back({first, last, {}});
    }
    begin = end;
  }
  peaks_.assign(begin, 0);
}

void EventPeaks::aim_at(std::int64_t target_bytes) {
  target_bytes_ = target_bytes;
  update(0, peaks_.size());
}

PeakSum EventPeaks::sum() const {
  PeakSum sum;
  for (const Chunk& chunk : chunks_) sum.add(chunk.sum);
  return sum;
}

void EventPeaks::add_to(PeakSum& sum, std::size_t begin, std::size_t end,
                        std::int64_t offset_bytes) const {
  for (std::size_t t = begin; t < end;) {
    const Chunk& chunk = chunks_[chunk_of_[t]];
    const bool whole = t == chunk.begin && chunk.end <= end;
    const std::int64_t highest = chunk.sum.peak_bytes + offset_bytes;
    const std::size_t last = std::min(end, chunk.end);
    if (whole && offset_bytes == 0) {
      sum.add(chunk.sum);
    } else if (whole && highest <= target_bytes_) {
      sum.add({highest, 0});
    } else {
      for (std::size_t u = t; u < last; ++u) sum.add(peaks_[u] + offset_bytes, target_bytes_);
    }
    t = last;
  }
}

void EventPeaks::set(std::size_t begin, std::span<const std::int64_t> peaks) {
  std::ranges::copy(peaks, peaks_.begin() + static_cast<std::ptrdiff_t>(begin));
  update(begin, begin + peaks.size());
}

void EventPeaks::raise(std::size_t begin, std::size_t end, std::int64_t bytes) {
  for (std::size_t t = begin; t < end; ++t) peaks_[t] += bytes;
  update(begin, end);
}

void EventPeaks::update(Chunk& chunk) const {
  chunk.sum = {};
  for (std::size_t t = chunk.begin; t < chunk.end; ++t) chunk.sum.add(peaks_[t], target_bytes_);
}

/// All chunks that the events touch.
void EventPeaks::update(std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  for (std::size_t c = chunk_of_[begin]; c < chunks_.size() && chunks_[c].begin < end; ++c) {
    update(chunks_[c]);
  }
}

}  // namespace gradrecomp::plan
