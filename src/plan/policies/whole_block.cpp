#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/error.h"
#include "plan/graph/blocks.h"
#include "plan/graph/op_groups.h"
#include "plan/graph/pareto.h"
#include "plan/simulator/replay_cost.h"
#include "policy_sets.h"

// Note [ Whole blocks ]
// ~~~~~~~~~~~~~~~~~~~~~
// A run of blocks either is one block that keeps all it saves, or keeps only what it hands on.
// Where all that crosses between runs is kept, no replay leaves its run, so what a run retains, the
// peak while it is at work above what earlier runs retain, and its cost do not depend on how other
// runs are done. All three are read off a few simulations that do all runs of one length alike.
// With W(b) the front of (peak above what blocks before b retain, cost) of the blocks from b on:
//   W(b) = Pareto over runs o that start at b, (n, c) in W(end of o) of
//          ( max(peak of o, bytes o retains + n), cost of o + c ).

namespace gradrecomp::plan {
namespace {

constexpr int kMaxBlocks = 64;
constexpr Index kLongestRun = 8;
constexpr std::size_t kMaxPoints = 4096;

/// A run of blocks and how it is done.
struct Run {
  Index begin = 0;
  Index end = 0;  ///< one past its last block
  bool keeps_all = false;
  std::int64_t retained_bytes = 0;
  std::int64_t peak_bytes = 0;  ///< above what earlier runs retain
  double replay_seconds = 0;
};

/// Makes kept sets out of runs, and measures runs.
class Runs {
 public:
  explicit Runs(const Graph& graph) : graph_(graph), simulator_(graph) {
    const Blocks found = find_blocks(graph, kMaxBlocks);
    num_blocks_ = static_cast<Index>(found.blocks.size());
    block_of_op_ = found.of_op;
    block_of_event_ = event_groups(graph, block_of_op_);
  }

  [[nodiscard]] Index num_blocks() const { return num_blocks_; }

  Simulation simulate(const KeptSet& keep) { return simulator_.run(keep); }

  [[nodiscard]] KeptSet compose(const std::vector<Run>& runs) const {
    const OpGroups run_of_op = run_of_ops(runs);
    KeptSet keep = keep_crossings(graph_, run_of_op);
    const KeptSet all = keep_all(graph_);
    for (std::size_t v = 0; v < keep.size(); ++v) {
      const Index producer = graph_.values[v].producer;
      if (producer >= 0 && runs[run_of_op[producer]].keeps_all) keep[v] |= all[v];
    }
    return keep;
  }

  /// All runs, in no order.
  std::vector<Run> measure() {
    std::vector<Run> found;
    measure_tiles(tile(1, 0, true), found);
    for (Index length = 1; length <= std::min(kLongestRun, num_blocks_); ++length) {
      for (Index offset = 0; offset < length; ++offset) {
        measure_tiles(tile(length, offset, false), found);
      }
    }
    return found;
  }

 private:
  /// Runs of `length` from block `offset` on; what is left over at the ends are shorter ones.
  [[nodiscard]] std::vector<Run> tile(Index length, Index offset, bool keeps_all) const {
    std::vector<Run> tiles;
    for (Index begin = 0; begin < num_blocks_;) {
      const Index end = begin == 0 && offset > 0 ? offset : begin + length;
      tiles.push_back({begin, std::min(end, num_blocks_), keeps_all});
      begin = end;
    }
    return tiles;
  }

  [[nodiscard]] OpGroups run_of_ops(const std::vector<Run>& runs) const {
    std::vector<Index> run_of_block;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      run_of_block.resize(static_cast<std::size_t>(runs[r].end), static_cast<Index>(r));
    }
    OpGroups found;
    for (const Index block : block_of_op_) found.push_back(run_of_block[block]);
    return found;
  }

  /// Measures the tiles and appends those of full length: the others have it in another tiling.
  void measure_tiles(std::vector<Run> tiles, std::vector<Run>& found) {
    simulator_.run(compose(tiles), timeline_);
    sum_up_blocks();
    std::int64_t retained_before = 0;
    const Index length = tiles.size() > 1 ? tiles[1].end - tiles[1].begin : num_blocks_;
    for (Run& tile : tiles) {
      tile.peak_bytes = std::numeric_limits<std::int64_t>::min();
      for (Index b = tile.begin; b < tile.end; ++b) {
        tile.retained_bytes += retained_bytes_[b];
        tile.peak_bytes = std::max(tile.peak_bytes, peak_bytes_[b] - retained_before);
        tile.replay_seconds += replay_seconds_[b];
      }
      retained_before += tile.retained_bytes;
      if (tile.end - tile.begin >= length) found.push_back(tile);
    }
  }

  void sum_up_blocks() {
    retained_bytes_.assign(num_blocks_, 0);
    peak_bytes_.assign(num_blocks_, 0);
    replay_seconds_.assign(num_blocks_, 0);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& x = graph_.values[v];
      if (x.producer >= 0 && timeline_.held[v] != 0) {
        retained_bytes_[block_of_op_[x.producer]] += x.bytes;
      }
    }
    for (std::size_t t = 0; t < block_of_event_.size(); ++t) {
      std::int64_t& peak = peak_bytes_[block_of_event_[t]];
      peak = std::max(peak, timeline_.peak_bytes[t]);
    }
    for (const Index op : timeline_.replayed_ops) {
      replay_seconds_[block_of_op_[op]] += least_replay_seconds(graph_.ops[op]);
    }
  }

  const Graph& graph_;
  Simulator simulator_;
  Index num_blocks_ = 0;
  OpGroups block_of_op_;
  std::vector<Index> block_of_event_;
  Timeline timeline_;
  std::vector<std::int64_t> retained_bytes_;  ///< per block, of the timeline read last
  std::vector<std::int64_t> peak_bytes_;
  std::vector<double> replay_seconds_;
};

/// A way to do all blocks from some block on.
struct Point {
  std::int64_t peak_bytes = 0;
  double replay_seconds = 0;
  Index run = -1;   ///< the first one; -1 past the last block
  Index rest = -1;  ///< of the points where that run ends
};

/// Leaves the points that no other one beats, by rising cost and falling peak, and of these at most
/// `most`.
void thin_out(std::vector<Point>& points, std::size_t most) {
  std::ranges::sort(points, [](const Point& a, const Point& b) {
    return std::pair(a.replay_seconds, a.peak_bytes) < std::pair(b.replay_seconds, b.peak_bytes);
  });
  drop_dominated(points, [](const Point& point) { return point.peak_bytes; });
  if (points.size() <= most) return;
  const double width = points.back().replay_seconds / static_cast<double>(most - 1);
  const auto bucket = [&](const Point& p) { return static_cast<int>(p.replay_seconds / width); };
  std::size_t num_left = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {  // the last of a bucket has its least peak
    const bool is_last = i + 1 == points.size() || bucket(points[i + 1]) != bucket(points[i]);
    if (is_last) points[num_left++] = points[i];
  }
  points.resize(num_left);
}

/// W of Note [ Whole blocks ], per block.
std::vector<std::vector<Point>> solve(const std::vector<Run>& runs, Index num_blocks,
                                      std::size_t max_points) {
  std::vector<std::vector<Point>> front(num_blocks + 1);
  front[num_blocks].push_back({});
  for (Index b = num_blocks - 1; b >= 0; --b) {
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (runs[r].begin != b) continue;
      const std::vector<Point>& rest = front[runs[r].end];
      for (std::size_t i = 0; i < rest.size(); ++i) {
        const std::int64_t later = runs[r].end == num_blocks
                                       ? runs[r].peak_bytes
                                       : runs[r].retained_bytes + rest[i].peak_bytes;
        front[b].push_back({std::max(runs[r].peak_bytes, later),
                            runs[r].replay_seconds + rest[i].replay_seconds, static_cast<Index>(r),
                            static_cast<Index>(i)});
      }
    }
    thin_out(front[b], max_points);
  }
  return front;
}

std::vector<Run> runs_of(Point point, const std::vector<Run>& runs,
                         const std::vector<std::vector<Point>>& front) {
  std::vector<Run> chain;
  while (point.run >= 0) {
    chain.push_back(runs[point.run]);
    point = front[chain.back().end][point.rest];
  }
  return chain;
}

}  // namespace

KeptSet whole_block(const Graph& graph, double share) {
  if (!(share > 0)) {
    raise(
        {"whole_block", "share", spelled(share), "above 0", "Pass 0.4 for 40% of the plain peak"});
  }
  Runs runs(graph);
  if (runs.num_blocks() == 0) return drop_all(graph);
  const auto plain_bytes = static_cast<double>(runs.simulate(keep_all(graph)).peak_bytes);
  const std::vector<Run> measured = runs.measure();
  const auto front = solve(measured, runs.num_blocks(), kMaxPoints);
  KeptSet least;
  auto least_bytes = std::numeric_limits<std::int64_t>::max();
  for (const Point& point : front[0]) {
    const bool is_last = &point == &front[0].back();
    if (static_cast<double>(point.peak_bytes) > share * plain_bytes && !is_last) continue;
    KeptSet keep = runs.compose(runs_of(point, measured, front));
    const std::int64_t peak_bytes = runs.simulate(keep).peak_bytes;
    if (static_cast<double>(peak_bytes) <= share * plain_bytes) return keep;
    if (peak_bytes >= least_bytes) continue;
    least = std::move(keep);
    least_bytes = peak_bytes;
  }
  return least;
}

std::vector<KeptSet> whole_block_sets(const Graph& graph, int most) {
  std::vector<KeptSet> sets;
  Runs runs(graph);
  if (runs.num_blocks() == 0) return sets;
  const std::vector<Run> measured = runs.measure();
  const auto front = solve(measured, runs.num_blocks(), static_cast<std::size_t>(most));
  for (const Point& point : front[0]) sets.push_back(runs.compose(runs_of(point, measured, front)));
  return sets;
}

}  // namespace gradrecomp::plan
