#include "menu.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <unordered_set>
#include <utility>

#include "option_meter.h"
#include "option_thinning.h"

// Note [ Menus ]
// ~~~~~~~~~~~~~~
// An option is as good as another if none of its retained bytes, swept bytes, two peaks and cost is
// higher. The options that no other one beats are found by a Pareto local search: begin with all
// choices kept, what autograd saved kept, and none kept; keep or drop one choice of an option on
// the menu; simulate; put it on the menu if nothing there is as good, and take off what it beats;
// until every option has been tried so, or the simulations are used up. If there are few choices,
// all sets are tried, as that search misses what it can only reach by way of worse sets. What
// backward and the replays do not want falls out of an option, so that sets that differ in name
// only count once. The sets left are then measured once more with their values left behind just in
// time, for plans that may replay ops more than once.

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kFewChoices = 8;
constexpr std::size_t kManyFates = 4;  // of both cuts

/// The search for one fate of a block's cuts.
class MenuSearch {
 public:
  MenuSearch(const BlockGraph& block, OptionMeter meter)
      : block_(block),
        meter_(std::move(meter)),
        num_choices_(std::min(block.choices.size(), kMaxChoices)) {}

  std::vector<Option> run(const MenuSize& size) {
    left_ = size.num_simulations;
    const std::uint64_t all = num_choices_ == kMaxChoices ? ~0ULL : (1ULL << num_choices_) - 1;
    try_set(all);
    try_set(saved() & all);
    try_set(0);
    if (num_choices_ <= kFewChoices) {
      for (std::uint64_t kept = 0; kept <= all && left_ > 0; ++kept) try_set(kept);
    }
    while (left_ > 0) {
      const auto next = std::ranges::find(entries_, false, &Entry::tried);
      if (next == entries_.end()) break;
      next->tried = true;
      const std::uint64_t kept = next->option.kept;
      for (std::size_t i = 0; i < num_choices_ && left_ > 0; ++i) try_set(kept ^ (1ULL << i));
    }
    std::vector<Option> options = thinned(size.num_options);
    if (size.num_just_in_time == 0) return options;
    try_just_in_time();
    const std::vector<Option> more = thinned(size.num_just_in_time);
    options.insert(options.end(), more.begin(), more.end());
    return options;
  }

 private:
  struct Entry {
    Option option;
    bool tried = false;
  };

  [[nodiscard]] std::uint64_t saved() const {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < num_choices_; ++i) {
      if (block_.graph.values[block_.choices[i]].saved) bits |= 1ULL << i;
    }
    return bits;
  }

  void try_set(std::uint64_t kept) {
    if (!seen_.insert(kept).second) return;
    --left_;
    const Option option = meter_.measure(kept);
    // The values that fell out were held for nothing until the region ended: only the rest is an
    // option.
    if (option.kept != kept) return try_set(option.kept);
    add(option);
  }

  /// Puts the same sets on the menu once more, their values left behind just in time.
  void try_just_in_time() {
    const std::vector<Entry> plain = std::exchange(entries_, {});
    for (const Entry& entry : plain) {
      const Option option = meter_.measure(entry.option.kept, true);
      const bool saves = option.swept_bytes < entry.option.swept_bytes ||
                         option.early_peak_bytes < entry.option.early_peak_bytes ||
                         option.late_peak_bytes < entry.option.late_peak_bytes;
      if (saves) add(option);
    }
  }

  void add(const Option& option) {
    const auto covers = [&](const Entry& entry) { return as_good(entry.option, option); };
    if (std::ranges::any_of(entries_, covers)) return;
    std::erase_if(entries_, [&](const Entry& entry) { return as_good(option, entry.option); });
    entries_.push_back({option, false});
  }

  [[nodiscard]] std::vector<Option> thinned(int num_options) {
    std::vector<Option> options;
    for (const Entry& entry : entries_) options.push_back(entry.option);
    if (options.size() > static_cast<std::size_t>(num_options)) {
      options = thinned_options(std::move(options), num_options);
    }
    std::ranges::stable_sort(options, {}, &Option::cost);
    return options;
  }

  const BlockGraph& block_;
  OptionMeter meter_;
  std::size_t num_choices_;
  int left_ = 0;
  std::vector<Entry> entries_;
  std::unordered_set<std::uint64_t> seen_;
};

/// What only the options that are left need.
void complete(Menu& menu, std::vector<Option>& options, OptionMeter& meter) {
  for (Option& option : options) {
    option.replays = static_cast<Index>(menu.replays.size());
    menu.replays.push_back(meter.replays(option));
    option.tail_peak_bytes = meter.tail_peak(option);
  }
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
  Simulator simulator(block.graph);
  const std::span<const CutFate> outs = fates_of(block.boundary, block.num_large_boundary);
  const std::span<const CutFate> ins = fates_of(block.inputs, block.num_large_inputs);
  MenuSize each = size;
  if (outs.size() * ins.size() > kManyFates) {
    each.num_options = size.num_options / 2;
    each.num_just_in_time = 0;
  }
  for (const CutFate out : outs) {
    for (const CutFate in : ins) {
      OptionMeter meter(block, replay_cost, simulator, out, in);
      menu.of(out, in) = MenuSearch(block, meter).run(each);
      complete(menu, menu.of(out, in), meter);
    }
  }
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
      }
    }
  }
  return menu;
}

}  // namespace gradrecomp::plan
