#include "blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "choosable_values.h"

// Note [ Blocks ]
// ~~~~~~~~~~~~~~~
// A cut lies between two ops. What crosses it is every value made before it and read by an op after
// it, external values aside. Where all that crosses a cut is kept, no replay of a later op reaches
// an earlier one: the closure of a value stops at the cut. Backward's demands do not count as
// crossing, as they start a closure on their own side. A cut is sound if everything that crosses it
// can be kept (is the last content of its storage, or cannot be replayed and is held anyway),
// unless it lies between a call and a part of it that goes on in its memory. The cuts taken are the
// sound ones that at most one value crosses, tiny ones aside (masks and tables that each layer
// reads), thinned out to the number of blocks wanted. A long run without such a cut is split where
// the fewest bytes cross, and its parts again where two values do, as between the cells of a
// recurrent layer.

namespace gradrecomp::plan {
namespace {

class Cutter {
 public:
  Cutter(const Graph& graph, int max_blocks) : graph_(graph) {
    const auto num_ops = static_cast<Index>(graph.ops.size());
    last_reader_.assign(graph.values.size(), -1);
    for (Index i = 0; i < num_ops; ++i) {
      for (const Index u : graph.ops[i].inputs) last_reader_[u] = i;
    }
    saved_before_.assign(graph.ops.size() + 1, 0);
    for (Index i = 0; i < num_ops; ++i) {
      std::int64_t bytes = 0;
      for (const Index v : graph.ops[i].outputs) {
        bytes += graph.values[v].saved ? graph.values[v].bytes : 0;
      }
      saved_before_[i + 1] = saved_before_[i] + bytes;
    }
    small_bytes_ = saved_before_.back() / std::max<std::int64_t>(2000, 4 * num_saved(graph));
    least_bytes_ = saved_before_.back() / max_blocks;
    scan();
  }

  Blocks cut() {
    const auto num_ops = static_cast<Index>(graph_.ops.size());
    Index begin = 0;
    for (Index p = 1; p < num_ops; ++p) {
      if (!single_[p] || saved_before_[p] - saved_before_[begin] < least_bytes_) continue;
      split(begin, p);
      begin = p;
    }
    // A step without ops still has events, which belong to its one block.
    if (begin < num_ops || num_ops == 0) split(begin, num_ops);
    locate();
    return std::move(found_);
  }

 private:
  /// One pass over the cuts: which are sound, crossed by one value, and by how many bytes.
  void scan() {
    const auto num_ops = static_cast<Index>(graph_.ops.size());
    sound_.assign(num_ops + 1, true);
    single_.assign(num_ops + 1, false);
    narrow_.assign(num_ops + 1, false);
    crossing_bytes_.assign(num_ops + 1, 0);
    std::vector<Index> alive;
    for (Index p = 1; p < num_ops; ++p) {
      for (const Index v : graph_.ops[p - 1].outputs) alive.push_back(v);
      std::erase_if(alive, [&](Index v) { return last_reader_[v] < p; });
      sound_[p] = !overwrites_unread(p);
      int num_large = 0;
      for (const Index v : alive) {
        const Value& x = graph_.values[v];
        if (is_source(x)) continue;
        sound_[p] = sound_[p] && x.overwritten_by < 0;
        num_large += x.bytes > small_bytes_ ? 1 : 0;
        crossing_bytes_[p] += x.bytes;
      }
      single_[p] = sound_[p] && num_large <= 1;
      narrow_[p] = sound_[p] && num_large <= kMostApart;
    }
  }

  /// As a part of a call may, which overwrites what the call has read, and belongs to its block.
  [[nodiscard]] bool overwrites_unread(Index op) const {
    return std::ranges::any_of(graph_.ops[op].outputs, [&](Index v) {
      const Index before = graph_.values[v].overwrites;
      return before >= 0 && std::ranges::count(graph_.ops[op].inputs, before) == 0;
    });
  }

  /// Parts of a long run are split further where few values cross.
  void split(Index begin, Index end, bool is_part = false) {
    constexpr Index kLongest = 48;
    constexpr Index kLongestPart = 24;
    const Index length = end - begin;
    Index cut = length > (is_part ? kLongestPart : kLongest) ? thinnest_cut(begin, end) : -1;
    if (cut >= 0 && length <= kLongest && !narrow_[cut]) cut = -1;
    if (cut < 0) {
      found_.blocks.push_back({begin, end, boundary(end)});
      return;
    }
    found_.are_clean = false;
    split(begin, cut, true);
    split(cut, end, true);
  }

  /// The sound cut in the middle half of a run that the fewest bytes cross, or -1.
  [[nodiscard]] Index thinnest_cut(Index begin, Index end) const {
    Index best = -1;
    auto best_bytes = std::numeric_limits<std::int64_t>::max();
    const Index margin = (end - begin) / 4;
    for (Index p = begin + margin; p <= end - margin; ++p) {
      if (!sound_[p] || crossing_bytes_[p] >= best_bytes) continue;
      best = p;
      best_bytes = crossing_bytes_[p];
    }
    return best;
  }

  [[nodiscard]] std::vector<Index> boundary(Index cut) const {
    std::vector<Index> values;
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& x = graph_.values[v];
      if (x.producer < 0 || x.producer >= cut || last_reader_[v] < cut) continue;
      if (x.overwritten_by < 0) values.push_back(static_cast<Index>(v));
    }
    return values;
  }

  void locate() {
    std::vector<Index>& block_of_op = found_.of_op;
    block_of_op.assign(graph_.ops.size(), 0);
    for (std::size_t b = 0; b < found_.blocks.size(); ++b) {
      for (Index i = found_.blocks[b].begin_op; i < found_.blocks[b].end_op; ++i) {
        block_of_op[i] = static_cast<Index>(b);
      }
    }
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Index producer = graph_.values[v].producer;
      found_.made_in.push_back(producer < 0 ? -1 : block_of_op[producer]);
      const Index last_op = std::max(producer, last_reader_[v]);
      // A value that no op makes or reads (a constant that only backward uses) goes to the last
      // block.
      const auto last_block = static_cast<Index>(found_.blocks.size()) - 1;
      found_.first_demanded_in.push_back(last_op < 0 ? last_block : block_of_op[last_op]);
    }
  }

  const Graph& graph_;
  std::vector<Index> last_reader_;
  std::vector<std::int64_t> saved_before_;
  std::vector<std::int64_t> crossing_bytes_;
  std::vector<bool> sound_;
  std::vector<bool> single_;
  std::vector<bool> narrow_;
  std::int64_t small_bytes_ = 0;
  std::int64_t least_bytes_ = 0;
  Blocks found_;
};

}  // namespace

Blocks find_blocks(const Graph& graph, int max_blocks) { return Cutter(graph, max_blocks).cut(); }

}  // namespace gradrecomp::plan
