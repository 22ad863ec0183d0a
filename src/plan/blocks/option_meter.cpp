#include "option_meter.h"

#include <algorithm>
#include <cstddef>

namespace gradrecomp::plan {

KeptSet kept_in_block(const BlockGraph& block, std::uint64_t kept, CutFate out, CutFate in) {
  KeptSet keep = block.keep;
  const auto decide = [&](const std::vector<Index>& crossing, CutFate fate) {
    for (std::size_t i = 0; i < crossing.size(); ++i) keep[crossing[i]] = is_kept(i, fate) ? 1 : 0;
  };
  decide(block.inputs, in);
  decide(block.boundary, out);
  const std::size_t num_choices = std::min(block.choices.size(), kMaxChoices);
  for (std::size_t i = 0; i < num_choices; ++i) keep[block.choices[i]] = (kept >> i) & 1;
  return keep;
}

Option OptionMeter::measure(std::uint64_t kept, bool just_in_time) {
  const KeptSet keep = kept_in_block(block_, kept, out_, in_);
  const Simulation result =
      just_in_time ? simulate(keep, cached_from(true)) : simulator_.run(keep, timeline_);
  Option option;
  option.just_in_time = just_in_time;
  const std::size_t num_choices = std::min(block_.choices.size(), kMaxChoices);
  for (std::size_t i = 0; i < num_choices; ++i) {
    if (timeline_.held[block_.choices[i]] != 0) option.kept |= 1ULL << i;
  }
  option.retained_bytes = result.seal_bytes;
  option.swept_bytes = timeline_.live_bytes[block_.sweep_end - 1] - result.seal_bytes;
  option.cost = just_in_time ? replay_cost_.passing(result) : replay_cost_.total(result);
  option.pass_cost = pass_cost();
  const auto trigger = reach();
  option.linked = trigger < block_.sweep_end;
  const auto peaks = std::span(timeline_.peak_bytes);
  const auto split = option.linked ? static_cast<Index>(peaks.size()) : trigger;
  option.early_peak_bytes = highest(peaks.first(split));
  option.late_peak_bytes = highest(peaks.subspan(split));
  return option;
}

std::int64_t OptionMeter::tail_peak(const Option& option) {
  if (!option.linked) return option.late_peak_bytes;
  const KeptSet keep = kept_in_block(block_, option.kept, out_, in_);
  std::vector<Index> from = cached_from(option.just_in_time);
  for (const Index v : block_.inputs) from[v] = block_.sweep_end;
  simulate(keep, from);
  return highest(std::span(timeline_.peak_bytes).subspan(reach(block_.sweep_end)));
}

ReplayList OptionMeter::replays(const Option& option) {
  static_cast<void>(measure(option.kept, option.just_in_time));
  const auto begins_later = [&](Index event) { return event >= block_.sweep_end; };
  const auto later = std::ranges::find_if(timeline_.replay_events, begins_later);
  return {.ops = timeline_.replayed_ops,
          .num_passing = static_cast<std::size_t>(later - timeline_.replay_events.begin())};
}

/// Per value, the event from which on replays leave it behind.
std::vector<Index> OptionMeter::cached_from(bool just_in_time) const {
  std::vector<Index> from(block_.graph.values.size(), 0);
  if (!just_in_time) return from;
  const std::vector<Event>& events = block_.graph.events;
  for (auto t = static_cast<Index>(events.size()) - 1; t >= block_.sweep_end; --t) {
    if (events[t].kind == EventKind::demand) from[events[t].id] = t;
  }
  for (const Index v : block_.inputs) from[v] = 0;
  for (const Index v : block_.boundary) from[v] = 0;
  return from;
}

Simulation OptionMeter::simulate(const KeptSet& keep, const std::vector<Index>& from) {
  return simulator_.run(keep, simulator_.defer(keep, from), timeline_);
}

std::int64_t OptionMeter::highest(std::span<const std::int64_t> peaks) {
  return peaks.empty() ? 0 : std::ranges::max(peaks);
}

double OptionMeter::pass_cost() const {
  double cost = 0;
  for (std::size_t i = 0; i < timeline_.replayed_ops.size(); ++i) {
    if (timeline_.replay_events[i] >= block_.sweep_end) break;
    cost += replay_cost_.passing(block_.graph.ops[timeline_.replayed_ops[i]]);
  }
  return cost;
}

/// The first event from `begin` on whose replay reaches into earlier blocks.
Index OptionMeter::reach(Index begin) const {
  for (std::size_t i = 0; i < timeline_.replayed_ops.size() && !block_.inputs.empty(); ++i) {
    const bool reaches = timeline_.replayed_ops[i] == 0;
    if (reaches && timeline_.replay_events[i] >= begin) return timeline_.replay_events[i];
  }
  return static_cast<Index>(timeline_.peak_bytes.size());
}

}  // namespace gradrecomp::plan
