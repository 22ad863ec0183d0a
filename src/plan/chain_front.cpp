#include "chain_front.h"

#include <algorithm>
#include <cstddef>
#include <limits>

// Note [ The chain of segments ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Backward runs the segments last to first, and while it is in one, everything that earlier
// segments retain is still there. So with W(k) the front of the blocks from k on, above what is
// retained before,
//   W(k) = Pareto over options o of segments [k, e) and points (n, c) of W(e) of
//          ( max(peak_o, retained_o + n), cost_o + c )
// and W(0) is the front of the network. Peaks are exact bytes. Costs are kept exactly too, but only
// the smallest n of all points whose cost falls into one bucket survives.

namespace gradrecomp::plan {
namespace {

constexpr auto kNone = std::numeric_limits<std::int64_t>::max();

struct Cell {
  std::int64_t peak_bytes = kNone;
  double cost = 0;
  Index option = -1;
  Index next_bucket = 0;
};

class ChainSolver {
 public:
  ChainSolver(const std::vector<SegmentOption>& options, Index num_blocks, int num_buckets)
      : options_(options), num_buckets_(num_buckets), table_(num_blocks + 1) {
    starting_at_.resize(num_blocks);
    std::vector<double> highest(num_blocks, 0);
    for (std::size_t o = 0; o < options.size(); ++o) {
      starting_at_[options[o].begin_block].push_back(static_cast<Index>(o));
      const Index length = options[o].end_block - options[o].begin_block;
      double& block_highest = highest[options[o].begin_block];
      block_highest = std::max(block_highest, options[o].cost / length);
    }
    double total = 0;
    for (const double cost : highest) total += cost;
    buckets_per_cost_ = total > 0 ? (num_buckets - 1) / total : 0;
  }

  std::vector<ChainPoint> solve() {
    const auto num_blocks = static_cast<Index>(starting_at_.size());
    table_[num_blocks].assign(1, {0, 0, -1, 0});
    for (Index k = num_blocks - 1; k >= 0; --k) {
      table_[k].assign(num_buckets_, {});
      for (const Index o : starting_at_[k]) extend(k, o);
      prune(table_[k]);
    }
    return points();
  }

 private:
  void extend(Index k, Index o) {
    const SegmentOption& option = options_[o];
    const std::vector<Cell>& rest = table_[option.end_block];
    for (std::size_t b = 0; b < rest.size(); ++b) {
      if (rest[b].peak_bytes == kNone) continue;
      const double cost = option.cost + rest[b].cost;
      const auto bucket = static_cast<std::size_t>(cost * buckets_per_cost_);
      if (bucket >= static_cast<std::size_t>(num_buckets_)) break;
      const std::int64_t peak_bytes =
          std::max(option.peak_bytes, option.retained_bytes + rest[b].peak_bytes);
      Cell& cell = table_[k][bucket];
      const bool is_better =
          peak_bytes < cell.peak_bytes || (peak_bytes == cell.peak_bytes && cost < cell.cost);
      if (is_better) cell = {peak_bytes, cost, o, static_cast<Index>(b)};
    }
  }

  /// Empties cells that a cheaper one beats.
  static void prune(std::vector<Cell>& cells) {
    std::int64_t least = kNone;
    for (Cell& cell : cells) {
      if (cell.peak_bytes >= least) cell.peak_bytes = kNone;
      least = std::min(least, cell.peak_bytes);
    }
  }

  [[nodiscard]] std::vector<ChainPoint> points() const {
    std::vector<ChainPoint> front;
    for (std::size_t b = 0; b < table_[0].size(); ++b) {
      const Cell& first = table_[0][b];
      if (first.peak_bytes == kNone) continue;
      ChainPoint point{{}, first.peak_bytes, first.cost};
      const Cell* cell = &first;
      while (cell->option >= 0) {
        point.chain.push_back(options_[cell->option]);
        cell = &table_[point.chain.back().end_block][cell->next_bucket];
      }
      front.push_back(std::move(point));
    }
    return front;
  }

  const std::vector<SegmentOption>& options_;
  int num_buckets_;
  double buckets_per_cost_ = 0;
  std::vector<std::vector<Index>> starting_at_;
  std::vector<std::vector<Cell>> table_;
};

}  // namespace

std::vector<ChainPoint> chain_front(const std::vector<SegmentOption>& options, Index num_blocks,
                                    int num_buckets) {
  return ChainSolver(options, num_blocks, num_buckets).solve();
}

}  // namespace gradrecomp::plan
