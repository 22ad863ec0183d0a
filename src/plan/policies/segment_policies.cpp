#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "gradrecomp/plan/policies.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/error.h"
#include "plan/graph/blocks.h"
#include "plan/graph/op_groups.h"
#include "policy_sets.h"

namespace gradrecomp::plan {
namespace {

/// The blocks of a graph with what autograd saves of each.
class Segmenter {
 public:
  explicit Segmenter(const Graph& graph) : graph_(graph), found_(find_blocks(graph, kManyBlocks)) {
    saved_bytes_.assign(found_.blocks.size(), 0);
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const Index block = found_.made_in[v];
      if (block < 0 || !graph.values[v].saved) continue;
      saved_bytes_[block] += graph.values[v].bytes;
      total_bytes_ += graph.values[v].bytes;
    }
  }

  [[nodiscard]] Index num_blocks() const { return static_cast<Index>(saved_bytes_.size()); }

  /// A block belongs to the segment in which its middle byte lies.
  [[nodiscard]] OpGroups equal_segments(Index num_segments) const {
    std::vector<Index> segment;
    std::int64_t before = 0;
    for (const std::int64_t bytes : saved_bytes_) {
      const double middle = static_cast<double>(before) + static_cast<double>(bytes) / 2;
      const double position = middle / static_cast<double>(std::max<std::int64_t>(1, total_bytes_));
      segment.push_back(static_cast<Index>(position * num_segments));
      before += bytes;
    }
    return groups(segment);
  }

  /// A segment ends with the block that takes it above `threshold_bytes`.
  [[nodiscard]] OpGroups greedy_segments(std::int64_t threshold_bytes) const {
    std::vector<Index> segment;
    Index now = 0;
    std::int64_t sum = 0;
    for (const std::int64_t bytes : saved_bytes_) {
      segment.push_back(now);
      sum += bytes;
      if (sum <= threshold_bytes) continue;
      ++now;
      sum = 0;
    }
    return groups(segment);
  }

  /// Keeps what crosses between greedy segments, from one segment to a segment for each block.
  [[nodiscard]] std::vector<KeptSet> greedy_sets(int most) const {
    std::vector<KeptSet> sets;
    OpGroups last;
    for (const Index k : spread_counts(num_blocks(), most)) {
      OpGroups groups = greedy_segments(total_bytes_ / k);
      if (groups == last) continue;
      sets.push_back(keep_crossings(graph_, groups));
      last = std::move(groups);
    }
    return sets;
  }

 private:
  [[nodiscard]] OpGroups groups(const std::vector<Index>& segment_of_block) const {
    OpGroups found(graph_.ops.size(), 0);
    for (std::size_t b = 0; b < found_.blocks.size(); ++b) {
      const Block& block = found_.blocks[b];
      std::fill(found.begin() + block.begin_op, found.begin() + block.end_op, segment_of_block[b]);
    }
    return found;
  }

  const Graph& graph_;
  Blocks found_;
  std::vector<std::int64_t> saved_bytes_;
  std::int64_t total_bytes_ = 0;
};

}  // namespace

KeptSet every_k(const Graph& graph, Index k) {
  if (k < 1) raise({"every_k", "k", spelled(k), "at least 1", "Pass the stages of one group"});
  return keep_crossings(graph, stage_groups(graph, k));
}

KeptSet sqrt_n(const Graph& graph) {
  const double k = std::round(std::sqrt(static_cast<double>(graph.stages.size())));
  return every_k(graph, std::max<Index>(1, static_cast<Index>(k)));
}

KeptSet uniform_n(const Graph& graph, Index num_segments) {
  if (num_segments < 1) {
    raise({"uniform_n", "num_segments", spelled(num_segments), "at least 1",
           "Pass 1 to replay everything at once"});
  }
  return keep_crossings(graph, Segmenter(graph).equal_segments(num_segments));
}

KeptSet chen_greedy(const Graph& graph) {
  Simulator simulator(graph);
  KeptSet best = drop_all(graph);
  Simulation least = simulator.run(best);
  const Segmenter segmenter(graph);
  for (KeptSet& keep : segmenter.greedy_sets(segmenter.num_blocks())) {
    const Simulation result = simulator.run(keep);
    if (std::pair(result.peak_bytes, result.replay_seconds) >=
        std::pair(least.peak_bytes, least.replay_seconds)) {
      continue;
    }
    best = std::move(keep);
    least = result;
  }
  return best;
}

std::vector<KeptSet> every_k_sets(const Graph& graph, int most) {
  std::vector<KeptSet> sets;
  const auto num_stages = static_cast<Index>(graph.stages.size());
  for (const Index k : spread_counts(num_stages, most)) sets.push_back(every_k(graph, k));
  return sets;
}

std::vector<KeptSet> segment_sets(const Graph& graph, int most) {
  const Segmenter segmenter(graph);
  std::vector<KeptSet> sets = segmenter.greedy_sets(most);
  for (const Index n : spread_counts(segmenter.num_blocks(), most)) {
    sets.push_back(keep_crossings(graph, segmenter.equal_segments(n)));
  }
  return sets;
}

}  // namespace gradrecomp::plan
