#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/selection.h"
#include "plan/graph/blocks.h"

namespace gradrecomp::plan {

/// The same block as a step in which its boundary is relayed, see Note [ Relays ] in
/// option_meter.cpp. Without events if it cannot be.
struct RelayGraph {
  Graph graph;           ///< its values are those of the block, and two more at the end
  Index first_end = 0;   ///< events after the first replay that runs through
  Index second_end = 0;  ///< after the second one
  Index sweep_end = 0;   ///< after the boundary's own demand
};

/// One block as a step of its own; see Note [ Blocks as steps ] in block_graph.cpp.
struct BlockGraph {
  Graph graph;
  std::vector<Index> global;    ///< per value: its index in the whole graph
  std::vector<Index> inputs;    ///< values of the block before that a plan may drop, large first
  std::vector<Index> boundary;  ///< those made here that are the inputs of the next, in its order
  std::size_t num_large_inputs = 0;
  std::size_t num_large_boundary = 0;
  std::vector<Index> choices;  ///< other values made here that a plan may keep or drop
  KeptSet keep;                ///< those decided beforehand
  Index sweep_end = 0;         ///< events after the replay that a later block sets off
  RelayGraph relay;
  bool inputs_may_be_relayed = false;
};

/// Every block of `graph`. Values of fewer than `tiny_bytes` are not chosen among.
std::vector<BlockGraph> make_block_graphs(const Graph& graph, const Blocks& blocks,
                                          std::span<const Constraint> constraints,
                                          std::int64_t tiny_bytes);

/// Per event: the block whose forward or backward it belongs to.
///
/// In backward these never rise within a pass, as a chain of blocks has it. Fixed policies follow
/// what saved a value instead, see event_groups().
std::vector<Index> find_blocks_at_work(const Graph& graph, const Blocks& blocks);

}  // namespace gradrecomp::plan
