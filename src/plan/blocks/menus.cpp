#include "menus.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>

namespace gradrecomp::plan {
namespace {

using Words = std::vector<std::int64_t>;

void append(Words& words, const std::vector<Index>& indices) {
  words.push_back(static_cast<std::int64_t>(indices.size()));
  words.insert(words.end(), indices.begin(), indices.end());
}

void append(Words& words, const Value& v) {
  const int flags = (v.must_keep ? 1 : 0) + (v.snapshot ? 2 : 0) + (v.saved ? 4 : 0);
  words.insert(words.end(), {v.bytes, v.producer, v.overwrites, v.overwritten_by, flags});
}

/// Everything a menu depends on but measured times.
Words fingerprint(const BlockGraph& block) {
  Words words{block.sweep_end};
  for (const Value& v : block.graph.values) append(words, v);
  for (const Op& op : block.graph.ops) {
    append(words, op.inputs);
    append(words, op.outputs);
    words.insert(words.end(), {std::bit_cast<std::int64_t>(op.flops),
                               std::bit_cast<std::int64_t>(op.bytes_moved), op.transient_bytes,
                               (op.by_kernel ? 1 : 0) + (op.joins ? 2 : 0) + (op.is_part ? 4 : 0)});
  }
  for (const Event& e : block.graph.events) {
    const auto kind = static_cast<std::int64_t>(e.kind);
    words.insert(words.end(), {kind, e.id, e.net_bytes, e.peak_bytes});
  }
  append(words, block.inputs);
  append(words, block.boundary);
  append(words, block.choices);
  words.insert(words.end(), block.keep.begin(), block.keep.end());
  return words;
}

/// The first of `equal`, with the mean seconds of all.
BlockGraph mean_block(const std::vector<BlockGraph>& blocks,
                      const std::vector<std::size_t>& equal) {
  BlockGraph mean = blocks[equal.front()];
  for (const auto seconds : {&Op::replay_seconds, &Op::joined_seconds}) {
    for (std::size_t i = 0; i < mean.graph.ops.size(); ++i) {
      double sum = 0;
      for (const std::size_t b : equal) sum += blocks[b].graph.ops[i].*seconds;
      mean.graph.ops[i].*seconds = sum / static_cast<double>(equal.size());
    }
  }
  return mean;
}

/// Per op, what it costs more in `block` than in `other`; empty if each costs the same.
std::vector<double> differences(const Graph& block, const Graph& other,
                                const ReplayCost& replay_cost) {
  std::vector<double> more;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    more.push_back(replay_cost.total(block.ops[i]) - replay_cost.total(other.ops[i]));
  }
  if (std::ranges::all_of(more, [](double cost) { return cost == 0; })) more.clear();
  return more;
}

}  // namespace

Menus::Menus(const std::vector<BlockGraph>& blocks, const ReplayCost& replay_cost,
             const MenuSize& size)
    : of_blocks_(blocks.size()) {
  std::map<Words, std::vector<std::size_t>> classes;
  for (std::size_t b = 0; b < blocks.size(); ++b) classes[fingerprint(blocks[b])].push_back(b);
  for (const auto& [words, equal] : classes) {
    const BlockGraph mean = mean_block(blocks, equal);
    const Menu* shared = &menus_.emplace_back(make_menu(mean, replay_cost, size));
    for (const std::size_t b : equal) {
      const std::vector<double> more = differences(blocks[b].graph, mean.graph, replay_cost);
      of_blocks_[b] = more.empty() ? shared : &menus_.emplace_back(recosted(*shared, more));
    }
  }
}

}  // namespace gradrecomp::plan
