#pragma once

#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// A run of ops between two cuts; see Note [ Blocks ] in blocks.cpp.
struct Block {
  Index begin_op = 0;
  Index end_op = 0;                  ///< one past its last op
  std::vector<Index> boundary = {};  ///< values made before end_op that later ops read
};

struct Blocks {
  std::vector<Block> blocks;
  std::vector<Index> of_op;              ///< per op: its block
  std::vector<Index> made_in;            ///< per value: block of its producer, -1 if external
  std::vector<Index> first_demanded_in;  ///< per value: block whose backward is first to demand it
  bool are_clean = true;                 ///< no block was split where several values cross
};

/// Where no more large values than these cross a cut, a plan may keep or drop each by itself.
inline constexpr int kMostApart = 2;

/// The most blocks for which searches over runs of blocks still end in good time.
inline constexpr int kManyBlocks = 128;

/// Cuts the op sequence into at most about `max_blocks` blocks.
Blocks find_blocks(const Graph& graph, int max_blocks);

}  // namespace gradrecomp::plan
