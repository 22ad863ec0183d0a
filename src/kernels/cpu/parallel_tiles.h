#pragma once

#include <ATen/Parallel.h>

#include <algorithm>

#include "kernels/cpu/tile.h"

namespace gradrecomp::kernels {

/// Blocks that are worth a thread: 32768 elements, LibTorch's own measure.
inline constexpr std::int64_t kGrainTiles = 32768 / kTile;

/// Calls work(first, size) for consecutive tiles of `num_elements`, in LibTorch's own threads.
///
/// A tile depends on nothing but its position, so results do not depend on the threads.
template <class Work>
void for_each_tile(std::int64_t num_elements, const Work& work) {
  const std::int64_t num_tiles = (num_elements + kTile - 1) / kTile;
  at::parallel_for(0, num_tiles, kGrainTiles, [&](auto begin, auto end) {
    for (auto tile = begin; tile < end; ++tile) {
      const std::int64_t first = tile * kTile;
      work(first, std::min(kTile, num_elements - first));
    }
  });
}

/// Calls piece(run, offset, begin, size) for each part of a run of `run_length` elements that lies
/// in the tile: `offset` in its run, `begin` in the tile.
template <class Piece>
void for_each_run(std::int64_t run_length, std::int64_t first, std::int64_t size,
                  const Piece& piece) {
  std::int64_t run = first / run_length;
  std::int64_t offset = first % run_length;
  for (std::int64_t begin = 0; begin < size; ++run) {
    const std::int64_t length = std::min(run_length - offset, size - begin);
    piece(run, offset, begin, length);
    begin += length;
    offset = 0;
  }
}

}  // namespace gradrecomp::kernels
