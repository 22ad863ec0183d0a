#pragma once

#include <ATen/Parallel.h>

#include <algorithm>

#include "kernels/cpu/blocks.h"

namespace gradrecomp::kernels {

/// Blocks that are worth a thread: 32768 elements, LibTorch's own measure.
inline constexpr std::int64_t kGrainBlocks = 32768 / kBlock;

/// Calls work(first, size) for consecutive blocks of `num_elements`, in LibTorch's own threads.
///
/// A block depends on nothing but its position, so results do not depend on the threads.
template <class Work>
void for_each_block(std::int64_t num_elements, const Work& work) {
  const std::int64_t num_blocks = (num_elements + kBlock - 1) / kBlock;
  at::parallel_for(0, num_blocks, kGrainBlocks, [&](auto begin, auto end) {
    for (auto block = begin; block < end; ++block) {
      const std::int64_t first = block * kBlock;
      work(first, std::min(kBlock, num_elements - first));
    }
  });
}

/// Calls piece(run, offset, begin, size) for each part of a run of `run_length` elements that lies
/// in the block: `offset` in its run, `begin` in the block.
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
