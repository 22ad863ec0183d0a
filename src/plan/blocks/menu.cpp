#include "menu.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "menu_search.h"
#include "option_meter.h"

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kManyFates = 4;  // of both cuts

/// What only the options that are left need.
void complete(Menu& menu, std::vector<Option>& options, OptionMeter& meter) {
  for (Option& option : options) {
    option.replays = static_cast<Index>(menu.replays.size());
    menu.replays.push_back(meter.replays(option));
    option.tail_peak_bytes = meter.tail_peak(option);
  }
}

/// Whether the chain can follow the option's own replays into earlier blocks.
bool is_followed(const Option& option, CutFate in) {
  return in != CutFate::relayed || (option.num_reaches > 0 && option.num_reaches <= kMostReaches);
}

void put(Menu& menu, std::vector<Option> options, OptionMeter& meter) {
  const CutFate in = meter.in();
  std::erase_if(options, [in](const Option& option) { return !is_followed(option, in); });
  complete(menu, options, meter);
  std::vector<Option>& all = menu.of(meter.out(), in);
  all.insert(all.end(), options.begin(), options.end());
}

void add_options(Menu& menu, OptionMeter meter, const MenuSize& size) {
  MenuSearch search(meter, size.num_simulations);
  put(menu, search.at_once(size.num_options, size.keeps_least), meter);
  if (size.num_just_in_time == 0) return;
  put(menu, search.just_in_time(size.num_just_in_time), meter);
}

/// For a boundary that is relayed. What ops with FLOPs make is left behind at once there, and all
/// else just in time.
void add_relaying(Menu& menu, OptionMeter meter, const MenuSize& size) {
  MenuSearch search(meter, size.num_simulations);
  const Timing timing{.just_in_time = true, .at_once = meter.choices_with_flops()};
  put(menu, search.timed(timing, size.num_options), meter);
}

void add_relays(Menu& menu, const BlockGraph& block, const ReplayCost& replay_cost,
                const MenuSize& size) {
  const MenuSize each{size.num_simulations, size.num_relays, size.num_relays / 2};
  const std::span<const CutFate> outs = fates_of(block.boundary, block.num_large_boundary);
  const std::span<const CutFate> ins = fates_of(block.inputs, block.num_large_inputs);
  const bool may_relay = !block.relay.graph.events.empty();
  constexpr CutFate kRelayed = CutFate::relayed;
  if (block.inputs_may_be_relayed) {
    for (const CutFate out : outs) add_options(menu, {block, replay_cost, out, kRelayed}, each);
    if (may_relay) add_relaying(menu, {block, replay_cost, kRelayed, kRelayed}, each);
  }
  if (!may_relay) return;
  for (const CutFate in : ins) add_relaying(menu, {block, replay_cost, kRelayed, in}, each);
}

}  // namespace

double Menu::dearest(int num_passes) const {
  double cost = 0;
  for_each([&](const Option& option) {
    cost = std::max(cost, option.cost + num_passes * option.pass_cost);
  });
  return cost;
}

Menu make_menu(const BlockGraph& block, const ReplayCost& replay_cost, const MenuSize& size) {
  Menu menu;
  const std::span<const CutFate> outs = fates_of(block.boundary, block.num_large_boundary);
  const std::span<const CutFate> ins = fates_of(block.inputs, block.num_large_inputs);
  MenuSize each = size;
  if (outs.size() * ins.size() > kManyFates) {
    each.num_options = size.num_options / 2;
    each.num_just_in_time = 0;
  }
  for (const CutFate out : outs) {
    for (const CutFate in : ins) add_options(menu, {block, replay_cost, out, in}, each);
  }
  if (size.num_relays > 0) add_relays(menu, block, replay_cost, size);
  return menu;
}

Menu recosted(Menu menu, const std::vector<double>& differences) {
  const auto add_to = [&](double& cost, std::span<const Index> replayed) {
    for (const Index op : replayed) cost += differences[op];
    cost = std::max(cost, 0.0);
  };
  for (auto& of_out : menu.options) {
    for (auto& of_in : of_out) {
      for (Option& option : of_in) {
        const ReplayList& list = menu.replays[option.replays];
        add_to(option.cost, list.ops);
        add_to(option.pass_cost, std::span(list.ops).first(list.num_passing));
        add_to(option.relay_cost, list.relayed);
      }
    }
  }
  return menu;
}

}  // namespace gradrecomp::plan
