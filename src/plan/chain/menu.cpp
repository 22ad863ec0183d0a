#include "menu.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <unordered_set>
#include <utility>

#include "gradrecomp/plan/simulate.h"
#include "option_thinning.h"

// Note [ Menus ]
// ~~~~~~~~~~~~~~
// An option is as good as another if it is so in all of retained bytes, swept bytes, both peaks and
// cost. The options that none is better than are found by a Pareto local search: begin with all
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
constexpr std::size_t kMostCrossing = 2;  // of which each has a fate of its own
constexpr std::size_t kManyFates = 4;     // of both cuts

bool as_good(const Option& a, const Option& b) {
  return a.linked == b.linked && a.just_in_time == b.just_in_time &&
         a.retained_bytes <= b.retained_bytes && a.swept_bytes <= b.swept_bytes &&
         a.early_peak_bytes <= b.early_peak_bytes && a.late_peak_bytes <= b.late_peak_bytes &&
         a.cost <= b.cost && a.pass_cost <= b.pass_cost;
}

/// The search for one fate of a block's cuts.
class MenuSearch {
 public:
  MenuSearch(const BlockGraph& block, const ReplayCost& replay_cost, Simulator& simulator,
             std::vector<ReplayList>& replays, CutFate out, CutFate in)
      : block_(block),
        replay_cost_(replay_cost),
        simulator_(simulator),
        replays_(replays),
        out_(out),
        in_(in),
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
    const Option option = measure(kept);
    // The values that fell out were held for nothing until the region ended: only the rest is an
    // option.
    if (option.kept != kept) return try_set(option.kept);
    add(option);
  }

  /// Puts the same sets on the menu once more, their values left behind just in time.
  void try_just_in_time() {
    const std::vector<Entry> plain = std::exchange(entries_, {});
    for (const Entry& entry : plain) {
      Option option = measure(entry.option.kept, Timing::just_in_time);
      option.just_in_time = true;
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

  enum class Timing : std::uint8_t { at_once, just_in_time };

  /// Per value, the event from which on replays leave it behind.
  [[nodiscard]] std::vector<Index> cached_from(Timing timing) const {
    std::vector<Index> from(block_.graph.values.size(), 0);
    if (timing == Timing::at_once) return from;
    const std::vector<Event>& events = block_.graph.events;
    for (auto t = static_cast<Index>(events.size()) - 1; t >= block_.sweep_end; --t) {
      if (events[t].kind == EventKind::demand) from[events[t].id] = t;
    }
    for (const Index v : block_.inputs) from[v] = 0;
    for (const Index v : block_.boundary) from[v] = 0;
    return from;
  }

  Simulation simulate(const KeptSet& keep, const std::vector<Index>& from) {
    return simulator_.run(keep, simulator_.defer(keep, from), timeline_);
  }

  Option measure(std::uint64_t kept, Timing timing = Timing::at_once) {
    const KeptSet keep = kept_in_block(block_, kept, out_, in_);
    const Simulation result = timing == Timing::at_once ? simulator_.run(keep, timeline_)
                                                        : simulate(keep, cached_from(timing));
    Option option;
    for (std::size_t i = 0; i < num_choices_; ++i) {
      if (timeline_.held[block_.choices[i]] != 0) option.kept |= 1ULL << i;
    }
    option.retained_bytes = result.seal_bytes;
    option.swept_bytes = timeline_.live_bytes[block_.sweep_end - 1] - result.seal_bytes;
    option.cost =
        timing == Timing::at_once ? replay_cost_.total(result) : replay_cost_.passing(result);
    option.pass_cost = pass_cost();
    const auto trigger = reach();
    option.linked = trigger < block_.sweep_end;
    const auto peaks = std::span(timeline_.peak_bytes);
    const auto split = option.linked ? static_cast<Index>(peaks.size()) : trigger;
    option.early_peak_bytes = highest(peaks.first(split));
    option.late_peak_bytes = highest(peaks.subspan(split));
    return option;
  }

  /// The late peak, also where a replay of a later block would have made what it reaches for.
  std::int64_t tail_peak(const Option& option) {
    if (!option.linked) return option.late_peak_bytes;
    const KeptSet keep = kept_in_block(block_, option.kept, out_, in_);
    std::vector<Index> from =
        cached_from(option.just_in_time ? Timing::just_in_time : Timing::at_once);
    for (const Index v : block_.inputs) from[v] = block_.sweep_end;
    simulate(keep, from);
    return highest(std::span(timeline_.peak_bytes).subspan(reach(block_.sweep_end)));
  }

  static std::int64_t highest(std::span<const std::int64_t> peaks) {
    return peaks.empty() ? 0 : std::ranges::max(peaks);
  }

  [[nodiscard]] double pass_cost() const {
    double cost = 0;
    for (std::size_t i = 0; i < timeline_.replayed_ops.size(); ++i) {
      if (timeline_.replay_events[i] >= block_.sweep_end) break;
      cost += replay_cost_.passing(block_.graph.ops[timeline_.replayed_ops[i]]);
    }
    return cost;
  }

  /// The first event from `begin` on whose replay reaches into earlier blocks.
  [[nodiscard]] Index reach(Index begin = 0) const {
    for (std::size_t i = 0; i < timeline_.replayed_ops.size() && !block_.inputs.empty(); ++i) {
      const bool reaches = timeline_.replayed_ops[i] == 0;
      if (reaches && timeline_.replay_events[i] >= begin) return timeline_.replay_events[i];
    }
    return static_cast<Index>(timeline_.peak_bytes.size());
  }

  [[nodiscard]] std::vector<Option> thinned(int num_options) {
    std::vector<Option> options;
    for (const Entry& entry : entries_) options.push_back(entry.option);
    if (options.size() > static_cast<std::size_t>(num_options)) {
      options = thinned_options(std::move(options), num_options);
    }
    std::ranges::stable_sort(options, {}, &Option::cost);
    for (Option& option : options) {
      option.replays = list_replays(option);
      option.tail_peak_bytes = tail_peak(option);
    }
    return options;
  }

  Index list_replays(const Option& option) {
    static_cast<void>(
        measure(option.kept, option.just_in_time ? Timing::just_in_time : Timing::at_once));
    ReplayList& list = replays_.emplace_back();
    list.ops = timeline_.replayed_ops;
    const auto begins_later = [&](Index event) { return event >= block_.sweep_end; };
    const auto later = std::ranges::find_if(timeline_.replay_events, begins_later);
    list.num_passing = static_cast<std::size_t>(later - timeline_.replay_events.begin());
    return static_cast<Index>(replays_.size()) - 1;
  }

  const BlockGraph& block_;
  const ReplayCost& replay_cost_;
  Simulator& simulator_;
  std::vector<ReplayList>& replays_;
  CutFate out_;
  CutFate in_;
  std::size_t num_choices_;
  int left_ = 0;
  Timeline timeline_;
  std::vector<Entry> entries_;
  std::unordered_set<std::uint64_t> seen_;
};

void decide(KeptSet& keep, const std::vector<Index>& crossing, CutFate fate) {
  for (std::size_t i = 0; i < crossing.size(); ++i) {
    const bool has_bit = i < kMostCrossing && (position(fate) >> i) % 2 == 1;
    keep[crossing[i]] = fate == CutFate::kept || has_bit ? 1 : 0;
  }
}

}  // namespace

std::span<const CutFate> fates_of(std::size_t num_crossing) {
  static constexpr std::array kWhole{CutFate::dropped, CutFate::kept};
  if (num_crossing == kMostCrossing) return kCutFates;
  return num_crossing == 0 ? std::span(kWhole).last(1) : std::span(kWhole);
}

double Menu::dearest(int num_passes) const {
  double cost = 0;
  for (const auto& of_out : options) {
    for (const auto& of_in : of_out) {
      for (const Option& option : of_in) {
        cost = std::max(cost, option.cost + num_passes * option.pass_cost);
      }
    }
  }
  return cost;
}

KeptSet kept_in_block(const BlockGraph& block, std::uint64_t kept, CutFate out, CutFate in) {
  KeptSet keep = block.keep;
  decide(keep, block.inputs, in);
  decide(keep, block.boundary, out);
  const std::size_t num_choices = std::min(block.choices.size(), kMaxChoices);
  for (std::size_t i = 0; i < num_choices; ++i) keep[block.choices[i]] = (kept >> i) & 1;
  return keep;
}

Menu make_menu(const BlockGraph& block, const ReplayCost& replay_cost, const MenuSize& size) {
  Menu menu;
  Simulator simulator(block.graph);
  const std::span<const CutFate> outs = fates_of(block.boundary.size());
  const std::span<const CutFate> ins = fates_of(block.inputs.size());
  MenuSize each = size;
  if (outs.size() * ins.size() > kManyFates) {
    each.num_options = size.num_options / 2;
    each.num_just_in_time = 0;
  }
  for (const CutFate out : outs) {
    for (const CutFate in : ins) {
      menu.of(out, in) = MenuSearch(block, replay_cost, simulator, menu.replays, out, in).run(each);
    }
  }
  return menu;
}

Menu recosted(Menu menu, const Graph& other, const Graph& block, const ReplayCost& replay_cost) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    differences.push_back(replay_cost.total(block.ops[i]) - replay_cost.total(other.ops[i]));
  }
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
