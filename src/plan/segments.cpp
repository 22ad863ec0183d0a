#include "segments.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "closure.h"

// Note [ Segments ]
// ~~~~~~~~~~~~~~~~~
// A segment keeps what crosses its ends and drops the boundaries within, so no replay crosses its
// ends. Hence what it retains, replays and needs at its worst (above what the blocks before it
// retain) depends on its own choices only, and one simulation of a whole plan measures every
// segment of that plan at once: tile the chain with segments of one length, give all of them their
// j-th option, run the simulator, and read each segment's share off the events of its windows. A
// window is the events of a block's forward, and of its backward from its first demand to that of
// an earlier block. The options of a segment are the prefixes of one order of drops: those of its
// blocks, merged by price per byte.

namespace gradrecomp::plan {

Segments::Segments(const Graph& graph, const Pricing& pricing, Blocks blocks)
    : graph_(graph), blocks_(std::move(blocks)) {
  for (const Value& v : graph.values) {
    bytes_.push_back(v.bytes);
    keepable_.push_back(v.producer >= 0 && v.overwritten_by < 0 ? 1 : 0);
    must_keep_.push_back(v.must_keep ? 1 : 0);
  }
  for (const Op& op : graph.ops) op_cost_.push_back(pricing.total(op));
  DropOrder drop_order(graph, pricing);
  for (const Block& block : blocks_.blocks) {
    for (Index i = block.begin_op; i < block.end_op; ++i) {
      block_of_op_.push_back(&block - blocks_.blocks.data());
    }
    order_kept_.push_back(drop_order.find(block, Output::kept));
    order_dropped_.push_back(drop_order.find(block, Output::dropped));
  }
  find_windows(graph);
}

void Segments::find_windows(const Graph& graph) {
  Index block = 0;
  bool sealed = false;
  for (const Event& event : graph.events) {
    if (event.kind == EventKind::run_op) block = block_of_op_[event.id];
    if (event.kind == EventKind::seal) {
      sealed = true;
      block = num_blocks() - 1;
    }
    if (sealed && event.kind == EventKind::demand) block = std::min(block, blocks_.home[event.id]);
    window_.push_back(block);
  }
}

Segments::Tile Segments::make_tile(Index begin, Index end) const {
  Tile tile{begin, end, {}};
  std::vector<const DropStep*> steps;
  for (Index b = begin; b < end; ++b) {
    const auto& order = b + 1 == end ? order_kept_[b] : order_dropped_[b];
    for (const DropStep& step : order) steps.push_back(&step);
  }
  std::ranges::stable_sort(steps, {}, &DropStep::price);
  for (const DropStep* step : steps) tile.order.push_back(&step->dropped);
  return tile;
}

std::vector<Segments::Tile> Segments::tiling(Index length, Index offset) const {
  std::vector<Tile> tiles;
  for (Index begin = 0, end = offset; begin < num_blocks(); begin = end, end += length) {
    end = std::min(end, num_blocks());
    if (end > begin) tiles.push_back(make_tile(begin, end));
  }
  return tiles;
}

Index Segments::Choice::num_steps(const Tile& tile) const {
  const auto most = static_cast<int>(tile.order.size());
  return most < max_options ? std::min(option, most) : option * most / (max_options - 1);
}

bool Segments::Choice::is_new(const Tile& tile) const {
  return option == 0 || num_steps(tile) != Choice{length, option - 1, max_options}.num_steps(tile);
}

void Segments::apply(const Tile& tile, Index num_steps, KeptSet& keep) const {
  for (Index b = tile.begin; b + 1 < tile.end; ++b) {
    for (const Index v : blocks_.blocks[b].boundary) {
      if (must_keep_[v] == 0 && blocks_.made_in[v] >= tile.begin) keep[v] = 0;
    }
  }
  for (const Index v : blocks_.blocks[tile.end - 1].boundary) keep[v] = 1;
  for (Index i = 0; i < num_steps; ++i) {
    for (const Index v : *tile.order[i]) keep[v] = 0;
  }
}

KeptSet Segments::compose(const std::vector<SegmentOption>& chain) const {
  KeptSet keep = keepable_;
  for (const SegmentOption& option : chain) {
    apply(make_tile(option.begin_block, option.end_block), option.num_steps, keep);
  }
  return only_wanted(graph_, std::move(keep));
}

void Segments::read(const Timeline& timeline) {
  const auto n = static_cast<std::size_t>(num_blocks());
  retained_before_.assign(n + 1, 0);
  for (std::size_t v = 0; v < timeline.held.size(); ++v) {
    if (timeline.held[v] != 0) retained_before_[blocks_.made_in[v] + 1] += bytes_[v];
  }
  for (std::size_t b = 0; b < n; ++b) retained_before_[b + 1] += retained_before_[b];
  window_peak_.assign(n, std::numeric_limits<std::int64_t>::min());
  for (std::size_t t = 0; t < window_.size(); ++t) {
    window_peak_[window_[t]] = std::max(window_peak_[window_[t]], timeline.peak_bytes[t]);
  }
  block_cost_.assign(n, 0);
  for (const Index op : timeline.replayed_ops) block_cost_[block_of_op_[op]] += op_cost_[op];
}

SegmentOption Segments::measured(const Tile& tile, Index num_steps) const {
  SegmentOption option{tile.begin, tile.end, num_steps, 0, 0, 0};
  option.retained_bytes = retained_before_[tile.end] - retained_before_[tile.begin];
  option.peak_bytes = std::numeric_limits<std::int64_t>::min();
  for (Index b = tile.begin; b < tile.end; ++b) {
    option.peak_bytes = std::max(option.peak_bytes, window_peak_[b]);
    option.cost += block_cost_[b];
  }
  option.peak_bytes = std::max<std::int64_t>(option.peak_bytes, 0) - retained_before_[tile.begin];
  return option;
}

/// Runs every tile with its `option`-th option and adds what is new of them to `found`.
void Segments::measure_tiles(Simulator& simulator, const std::vector<Tile>& tiles,
                             const Choice& choice, std::vector<SegmentOption>& found) {
  KeptSet keep = keepable_;
  for (const Tile& tile : tiles) apply(tile, choice.num_steps(tile), keep);
  simulator.run(only_wanted(graph_, std::move(keep)), timeline_);
  read(timeline_);
  for (const Tile& tile : tiles) {
    const bool is_whole = tile.end - tile.begin == choice.length;
    if (is_whole && choice.is_new(tile)) found.push_back(measured(tile, choice.num_steps(tile)));
  }
}

std::vector<SegmentOption> Segments::measure(Simulator& simulator, Index max_length,
                                             int max_options) {
  std::vector<SegmentOption> found;
  for (Index length = 1; length <= std::min(max_length, num_blocks()); ++length) {
    for (Index offset = 0; offset < length; ++offset) {
      const std::vector<Tile> tiles = tiling(length, offset);
      for (int option = 0; option < max_options; ++option) {
        measure_tiles(simulator, tiles, {length, option, max_options}, found);
      }
    }
  }
  return found;
}

}  // namespace gradrecomp::plan
