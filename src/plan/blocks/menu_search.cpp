#include "menu_search.h"

#include <algorithm>
#include <utility>

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

}  // namespace

MenuSearch::MenuSearch(OptionMeter& meter, int num_simulations)
    : block_(meter.block()),
      meter_(meter),
      num_choices_(std::min(block_.choices.size(), kMaxChoices)),
      left_(num_simulations) {
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
}

std::uint64_t MenuSearch::saved() const {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < num_choices_; ++i) {
    if (block_.graph.values[block_.choices[i]].saved) bits |= 1ULL << i;
  }
  return bits;
}

void MenuSearch::try_set(std::uint64_t kept) {
  if (!seen_.insert(kept).second) return;
  --left_;
  const Option option = meter_.measure(kept);
  // The values that fell out were held for nothing until the region ended: only the rest is an
  // option.
  if (option.kept != kept) return try_set(option.kept);
  add(entries_, option);
}

void MenuSearch::add(std::vector<Entry>& entries, const Option& option) {
  const auto covers = [&](const Entry& entry) { return as_good(entry.option, option); };
  if (std::ranges::any_of(entries, covers)) return;
  std::erase_if(entries, [&](const Entry& entry) { return as_good(option, entry.option); });
  entries.push_back({option, false});
}

std::vector<Option> MenuSearch::thinned(const std::vector<Entry>& entries, int num_options,
                                        bool keeps_least) {
  std::vector<Option> options;
  for (const Entry& entry : entries) options.push_back(entry.option);
  if (options.size() > static_cast<std::size_t>(num_options)) {
    options = thinned_options(std::move(options), num_options, keeps_least);
  }
  std::ranges::stable_sort(options, {}, &Option::cost);
  return options;
}

std::vector<Option> MenuSearch::at_once(int num_options, bool keeps_least) const {
  return thinned(entries_, num_options, keeps_least);
}

std::vector<Option> MenuSearch::just_in_time(int num_options) {
  std::vector<Entry> entries;
  for (const Entry& entry : entries_) {
    const Option option = meter_.measure(entry.option.kept, {.just_in_time = true});
    const bool saves = option.swept_bytes < entry.option.swept_bytes ||
                       option.early_peak_bytes < entry.option.early_peak_bytes ||
                       option.late_peak_bytes < entry.option.late_peak_bytes;
    if (saves) add(entries, option);
  }
  return thinned(entries, num_options);
}

std::vector<Option> MenuSearch::timed(const Timing& timing, int num_options) {
  std::vector<Entry> entries;
  for (const Entry& entry : entries_) add(entries, meter_.measure(entry.option.kept, timing));
  return thinned(entries, num_options);
}

}  // namespace gradrecomp::plan
