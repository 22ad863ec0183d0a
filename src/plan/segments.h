#pragma once

#include <cstdint>
#include <vector>

#include "blocks.h"
#include "drop_order.h"
#include "gradrecomp/plan/simulate.h"
#include "pricing.h"

namespace gradrecomp::plan {

/// A way to run a segment: consecutive blocks that hand on only what the last of them hands on.
struct SegmentOption {
  Index begin_block = 0;
  Index end_block = 0;  ///< one behind its last block
  Index num_steps = 0;  ///< of the segment's drop order that are taken
  std::int64_t retained_bytes = 0;
  std::int64_t peak_bytes = 0;  ///< in its forward and backward, above what earlier blocks retain
  double cost = 0;
};

/// Measures segments of a chain of blocks; see Note [ Segments ] in segments.cpp.
class Segments {
 public:
  Segments(const Graph& graph, const Pricing& pricing, Blocks blocks);

  /// Every option of every segment up to `max_length` blocks, `max_options` each at most.
  std::vector<SegmentOption> measure(Simulator& simulator, Index max_length, int max_options);

  /// The kept set that runs these segments, which must cover the chain.
  [[nodiscard]] KeptSet compose(const std::vector<SegmentOption>& chain) const;

  [[nodiscard]] Index num_blocks() const { return static_cast<Index>(blocks_.blocks.size()); }

 private:
  struct Tile {
    Index begin;
    Index end;
    std::vector<const std::vector<Index>*> order;  ///< what each step of the drop order drops
  };

  /// The option that all tiles of one simulation take: of `max_options` about evenly spread ones.
  struct Choice {
    Index length;
    int option;
    int max_options;
    [[nodiscard]] Index num_steps(const Tile& tile) const;
    [[nodiscard]] bool is_new(const Tile& tile) const;  ///< not what option - 1 takes
  };

  [[nodiscard]] Tile make_tile(Index begin, Index end) const;
  [[nodiscard]] std::vector<Tile> tiling(Index length, Index offset) const;
  void apply(const Tile& tile, Index num_steps, KeptSet& keep) const;
  void measure_tiles(Simulator& simulator, const std::vector<Tile>& tiles, const Choice& choice,
                     std::vector<SegmentOption>& found);
  void read(const Timeline& timeline);
  [[nodiscard]] SegmentOption measured(const Tile& tile, Index num_steps) const;
  void find_windows(const Graph& graph);

  const Graph& graph_;
  Blocks blocks_;
  std::vector<std::int64_t> bytes_;
  std::vector<double> op_cost_;
  std::vector<Index> block_of_op_;
  KeptSet keepable_;
  std::vector<std::uint8_t> must_keep_;
  std::vector<std::vector<DropStep>> order_kept_;     ///< per block, its output kept
  std::vector<std::vector<DropStep>> order_dropped_;  ///< per block, its output dropped
  std::vector<Index> window_;                         ///< per event: the block it belongs to

  Timeline timeline_;
  std::vector<std::int64_t> retained_before_;  ///< per block, of the timeline read last
  std::vector<std::int64_t> window_peak_;
  std::vector<double> block_cost_;
};

}  // namespace gradrecomp::plan
