#include "tape/prints/byte_runs.h"

#include <algorithm>

namespace gradrecomp::tape {

ByteRuns::ByteRuns(const Geometry& geometry, std::int64_t smallest_gap)
    : begin_(geometry.extent().begin) {
  const auto sizes = geometry.sizes();
  const auto strides = geometry.strides();
  if (std::ranges::find(sizes, 0) != sizes.end()) return;
  const auto element_bytes = static_cast<std::int64_t>(c10::elementSize(geometry.scalar_type()));
  c10::SmallVector<Dimension, 8> by_pitch;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool moves = sizes[i] > 1 && strides[i] > 0;  // else it repeats what others show
    if (moves) by_pitch.push_back({sizes[i], strides[i] * element_bytes});
  }
  std::ranges::sort(by_pitch, {}, &Dimension::pitch);
  run_bytes_ = element_bytes;
  num_runs_ = 1;
  for (const auto& [size, pitch] : by_pitch) {
    if (dimensions_.empty() && pitch - run_bytes_ < smallest_gap) {
      run_bytes_ += (size - 1) * pitch;
    } else {
      dimensions_.push_back({size, pitch});
      num_runs_ *= size;
    }
  }
}

std::int64_t ByteRuns::begin_of(std::int64_t run) const {
  std::int64_t begin = begin_;
  for (const auto& [size, pitch] : dimensions_) {
    begin += run % size * pitch;
    run /= size;
  }
  return begin;
}

}  // namespace gradrecomp::tape
