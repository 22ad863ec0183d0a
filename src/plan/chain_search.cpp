#include "chain_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "closure.h"

namespace gradrecomp::plan {
namespace {

constexpr int kMaxBlocks = 128;
constexpr MenuSize kMenuSize{.num_simulations = 1000, .num_options = 32};

std::int64_t saved_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Value& v : graph.values) bytes += v.saved ? v.bytes : 0;
  return bytes;
}

std::vector<Index> find_backward_begins(const Graph& graph, const Blocks& blocks) {
  const std::vector<Index> window = find_windows(graph, blocks);
  std::vector<Index> begin(blocks.blocks.size() + 1, static_cast<Index>(window.size()));
  for (std::size_t t = window.size(); t-- > 0;) {
    if (graph.events[t].kind == EventKind::seal) break;
    begin[window[t]] = static_cast<Index>(t);
  }
  return begin;
}

}  // namespace

ChainSearch::ChainSearch(const Graph& graph, const Pricing& pricing,
                         std::span<const Verdict> verdicts)
    : graph_(graph),
      blocks_(find_blocks(graph, kMaxBlocks)),
      block_graphs_(make_block_graphs(graph, blocks_, verdicts, saved_bytes(graph) / 20000)),
      backward_begin_(find_backward_begins(graph, blocks_)),
      menus_(block_graphs_, pricing, kMenuSize) {
  constexpr std::int64_t kFewestBlocks = 6;
  for (const BlockGraph& block : block_graphs_) {
    const bool fits = block.choices.size() <= kMaxChoices;
    if (!fits || saved_bytes(block.graph) > saved_bytes(graph) / kFewestBlocks) well_cut_ = false;
  }
}

std::vector<ChainPoint> ChainSearch::front(const ChainSize& size) const {
  return solve_chain(menus_.of_blocks(), size);
}

KeptSet ChainSearch::kept(const ChainPoint& point) const {
  KeptSet keep(graph_.values.size(), 1);
  for (std::size_t b = 0; b < block_graphs_.size(); ++b) {
    const BlockGraph& block = block_graphs_[b];
    const BlockChoice& choice = point.choices[b];
    const KeptSet kept = kept_in_block(block, choice.option->kept, choice.out, choice.in);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const Index v = block.global[i];
      if (blocks_.made_in[v] == static_cast<Index>(b)) keep[v] = kept[i];
    }
  }
  return only_wanted(graph_, std::move(keep));
}

std::vector<Index> ChainSearch::cached_from(const ChainPoint& point) const {
  const auto deferred = [](const BlockChoice& choice) { return choice.deferred; };
  if (std::ranges::none_of(point.choices, deferred)) return {};
  std::vector<Index> from(graph_.values.size(), 0);
  for (std::size_t v = 0; v < from.size(); ++v) {
    const Index block = blocks_.made_in[v];
    if (block >= 0 && point.choices[block].deferred) from[v] = backward_begin_[block + 1];
  }
  return from;
}

}  // namespace gradrecomp::plan
