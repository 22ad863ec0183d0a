#include "chain_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "grouped_chain.h"
#include "plan/graph/choosable_values.h"
#include "plan/graph/demands.h"
#include "plan/graph/wanted_values.h"

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kLongChain = 2 * kManyBlocks;
/// Where two values cross many cuts, a chain has four times as many plans to tell apart, and takes
/// long if replays may also run through its blocks.
constexpr std::size_t kLongUncleanChain = 112;
/// There, menus put costs up to so many times too high, as simulations of recurrent nets show.
constexpr double kRoomForCosts = 1.2;
constexpr int kNumRelays = 16;

bool is_long_and_unclean(const Blocks& blocks) {
  return !blocks.are_clean && blocks.blocks.size() > kLongUncleanChain;
}

/// Of many blocks, each is a small part of the whole, and short.
MenuSize menu_size(Replays replays, const Blocks& blocks) {
  MenuSize size{.num_simulations = 3000, .num_options = 32, .num_just_in_time = 12};
  if (blocks.blocks.size() > kLongChain) {
    size = {.num_simulations = 300, .num_options = 16, .num_just_in_time = 6};
  }
  if (replays == Replays::once) size.num_just_in_time = 0;
  // Over a long run of dropped boundaries, a little more in each block is much.
  size.keeps_least = is_long_and_unclean(blocks);
  return size;
}

/// More where there are many ops, as menus of long blocks are incomplete.
int most_blocks(const Graph& graph) {
  constexpr int kShortBlock = 10;  // ops
  constexpr int kMostBlocks = 4096;
  const auto num_ops = static_cast<int>(graph.ops.size());
  if (num_ops <= kShortBlock * kManyBlocks) return kManyBlocks;
  return std::min(num_ops / (kShortBlock / 2), kMostBlocks);
}

std::vector<Index> find_backward_begins(const Graph& graph, const Blocks& blocks) {
  const std::vector<Index> at_work = find_blocks_at_work(graph, blocks);
  std::vector<Index> begin(blocks.blocks.size() + 1, static_cast<Index>(at_work.size()));
  for (std::size_t t = at_work.size(); t-- > 0;) {
    if (graph.events[t].kind == EventKind::seal) break;
    begin[at_work[t]] = static_cast<Index>(t);
  }
  return begin;
}

}  // namespace

ChainSearch::ChainSearch(const Graph& graph, const ReplayCost& replay_cost,
                         std::span<const Constraint> constraints, Replays replays)
    : graph_(graph),
      replay_cost_(replay_cost),
      blocks_(find_blocks(graph, most_blocks(graph))),
      block_graphs_(make_block_graphs(graph, blocks_, constraints, tiny_bytes(graph))),
      backward_begin_(find_backward_begins(graph, blocks_)),
      first_demand_(first_demands(graph, 0)),
      menu_size_(menu_size(replays, blocks_)),
      menus_(block_graphs_, replay_cost, menu_size_) {
  // The chain does not count what later passes ask for.
  well_cut_ =
      std::ranges::find(graph.events, EventKind::pass_end, &Event::kind) == graph.events.end();
  well_cut_ &= blocks_.are_clean;
  constexpr std::int64_t kFewestBlocks = 6;
  const std::int64_t most_saved = saved_bytes(graph) / kFewestBlocks;
  for (const BlockGraph& block : block_graphs_) {
    const bool fits = block.choices.size() <= kMaxChoices;
    if (!fits || saved_bytes(block.graph) > most_saved) well_cut_ = false;
  }
}

std::vector<ChainPoint> ChainSearch::front(const ChainSize& size) const {
  return front(menus_.of_blocks(), size);
}

std::vector<ChainPoint> ChainSearch::front_with_relays(const ChainSize& size) {
  const auto may_relay = [](const BlockGraph& block) { return !block.relay.graph.events.empty(); };
  const bool are_few = blocks_.are_clean && num_blocks() <= kLongChain;
  if (!are_few || std::ranges::none_of(block_graphs_, may_relay)) return {};
  if (!relay_menus_) {
    MenuSize with_relays = menu_size_;
    with_relays.num_relays = kNumRelays;
    relay_menus_.emplace(block_graphs_, replay_cost_, with_relays);
  }
  return front(relay_menus_->of_blocks(), size);
}

std::vector<ChainPoint> ChainSearch::front(std::span<const Menu* const> menus,
                                           const ChainSize& size) const {
  ChainSize needed = size;
  if (!blocks_.are_clean) needed.max_passes = std::min(size.max_passes, 1);
  if (is_long_and_unclean(blocks_)) {
    needed.max_passes = 0;
    needed.max_cost *= kRoomForCosts;
    needed.num_buckets = static_cast<int>(needed.num_buckets * kRoomForCosts);
  }
  double dearest = 0;
  for (const Menu* menu : menus) dearest += menu->dearest(needed.max_passes);
  needed.max_cost = std::max(std::min(needed.max_cost, dearest), 1e-9);
  if (replay_cost_.model() == CostModel::seconds) needed.num_buckets *= kFinerInSeconds;
  if (menus.size() > kLongChain) return solve_in_groups(menus, needed);
  return solve_chain(menus, needed);
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
  const auto defers = [](const BlockChoice& choice) {
    return choice.num_passes > 0 || choice.option->timing.just_in_time ||
           choice.out == CutFate::relayed;
  };
  if (blocks_.are_clean && std::ranges::none_of(point.choices, defers)) return {};
  std::vector<Index> from(graph_.values.size(), 0);
  std::vector<Index> reaches;  // per replay that runs across the current cut: its earliest event
  for (std::size_t b = block_graphs_.size(); b-- > 0;) {
    const BlockChoice& choice = point.choices[b];
    const bool was_open = choice.out != CutFate::kept;
    const Index due = was_open && choice.num_passes > 0 ? reaches.at(choice.num_passes) : 0;
    leave_behind(b, choice, due, from);
    run_across(b, choice, reaches);
  }
  return from;
}

/// Says from when on replays leave the values of block `b` behind, which is not before `due`.
void ChainSearch::leave_behind(std::size_t b, const BlockChoice& choice, Index due,
                               std::vector<Index>& from) const {
  const BlockGraph& block = block_graphs_[b];
  const Timing& timing = choice.option->timing;
  for (const Index v : block.global) {
    if (blocks_.made_in[v] != static_cast<Index>(b)) continue;
    from[v] = timing.just_in_time ? std::max(due, first_demand_[v]) : due;
  }
  for (std::size_t i = 0; i < std::min(block.choices.size(), kMaxChoices); ++i) {
    if (((timing.at_once >> i) & 1) != 0) from[block.global[block.choices[i]]] = due;
  }
  for (const Index id : block.boundary) {
    const Index v = block.global[id];
    from[v] = blocks_.are_clean ? due : ~due;
    if (choice.out == CutFate::relayed) from[v] = first_demand_[v];
  }
}

/// From the replays that run across the end of block `b` to those that run across its begin.
void ChainSearch::run_across(std::size_t b, const BlockChoice& choice,
                             std::vector<Index>& reaches) const {
  const Option& option = *choice.option;
  const bool goes_on = choice.out != CutFate::kept && option.linked;
  if (!goes_on || !option.relays_on) reaches.resize(goes_on ? choice.num_passes + 1 : 0);
  if (choice.in == CutFate::kept) return;
  if (choice.in != CutFate::relayed) return reaches.push_back(backward_begin_[b]);
  for (std::size_t i = 0; i < option.num_reaches; ++i) {
    reaches.push_back(first_demand_[block_graphs_[b].global[option.reached_for[i]]]);
  }
}

}  // namespace gradrecomp::plan
