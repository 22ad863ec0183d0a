#include "option_meter.h"

#include <algorithm>
#include <cstddef>

// Note [ Relays ]
// ~~~~~~~~~~~~~~~
// Replays that run through a block and leave its values behind leave its boundary, too, as later
// ones then need not run through it. But other values may be more worth their bytes. What a
// residual block hands on is a norm and a sum away from the output of its last convolution, which
// backward wants as well. A boundary is relayed if replays leave that behind and not the boundary:
// each makes it again, from the values of the block and from what the block before hands on, and
// only when backward demands the boundary itself does it stay. Where blocks before relay theirs,
// too, a replay runs through all of them, for a few pointwise ops each.
//
// Such a block is measured in a step in which two replays of later blocks run through it, one after
// the other, ahead of the demand of its boundary. The first leaves behind what the option says, the
// second costs what any other does that runs through in between. What ops with FLOPs make is left
// behind at once, and all else just in time.
//
// The block behind asks for a relayed boundary each time its own replays need it, and its backward
// once: these are its reaches.

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

OptionMeter::OptionMeter(const BlockGraph& block, const ReplayCost& replay_cost, CutFate out,
                         CutFate in)
    : block_(block),
      replay_cost_(replay_cost),
      out_(out),
      in_(in),
      relays_(out == CutFate::relayed),
      graph_(relays_ ? block.relay.graph : block.graph),
      first_end_(relays_ ? block.relay.first_end : block.sweep_end),
      second_end_(relays_ ? block.relay.second_end : block.sweep_end),
      sweep_end_(relays_ ? block.relay.sweep_end : block.sweep_end),
      first_demand_(graph_.values.size(), static_cast<Index>(graph_.events.size())),
      simulator_(graph_) {
  for (auto t = static_cast<Index>(graph_.events.size()) - 1; t >= sweep_end_; --t) {
    if (graph_.events[t].kind == EventKind::demand) first_demand_[graph_.events[t].id] = t;
  }
}

Option OptionMeter::measure(std::uint64_t kept, const Timing& timing) {
  const Simulation result = simulate(kept_in_block(block_, kept, out_, in_), cached_from(timing));
  Option option;
  option.timing = timing;
  const std::size_t num_choices = std::min(block_.choices.size(), kMaxChoices);
  for (std::size_t i = 0; i < num_choices; ++i) {
    if (timeline_.held[block_.choices[i]] != 0) option.kept |= 1ULL << i;
  }
  const auto num_events = static_cast<Index>(graph_.events.size());
  option.retained_bytes = result.seal_bytes;
  const bool passing = timing.just_in_time || relays_ || in_ == CutFate::relayed;
  option.cost = passing ? replay_cost_.passing(result) : replay_cost_.total(result);
  option.pass_cost = passing_cost(0, first_end_);
  option.swept_bytes = timeline_.live_bytes[first_end_ - 1] - option.retained_bytes;
  if (relays_) {
    option.relay_cost = passing_cost(first_end_, second_end_);
    option.cost -= option.relay_cost;
    option.relayed_bytes =
        timeline_.live_bytes[sweep_end_ - 1] - timeline_.live_bytes[first_end_ - 1];
    option.relays_on = reach(first_end_) < second_end_;
  }
  const auto trigger = reach();
  option.linked = trigger < first_end_;
  const auto split = option.linked ? num_events : trigger;
  option.early_peak_bytes = highest(0, split);
  option.late_peak_bytes = highest(split, num_events);
  if (in_ == CutFate::relayed) note_reaches(option);
  return option;
}

/// Of its own, after those of later blocks.
void OptionMeter::note_reaches(Option& option) const {
  const auto num_events = static_cast<Index>(graph_.events.size());
  for (Index t = reach(sweep_end_); t < num_events; t = reach(t + 1)) {
    if (option.num_reaches < kMostReaches) {
      option.since_bytes[option.num_reaches] = highest(t, num_events);
      option.reached_for[option.num_reaches] = graph_.events[t].id;
    }
    ++option.num_reaches;
  }
}

std::int64_t OptionMeter::tail_peak(const Option& option) {
  if (!option.linked) return option.late_peak_bytes;
  std::vector<Index> from = cached_from(option.timing);
  for (const Index v : block_.inputs) from[v] = sweep_end_;
  simulate(kept_in_block(block_, option.kept, out_, in_), from);
  return highest(reach(sweep_end_), static_cast<Index>(graph_.events.size()));
}

ReplayList OptionMeter::replays(const Option& option) {
  static_cast<void>(measure(option.kept, option.timing));
  ReplayList list;
  for (std::size_t i = 0; i < timeline_.replayed_ops.size(); ++i) {
    const Index t = timeline_.replay_events[i];
    const bool is_relay = t >= first_end_ && t < second_end_;
    (is_relay ? list.relayed : list.ops).push_back(timeline_.replayed_ops[i]);
    list.num_passing += t < first_end_ ? 1 : 0;
  }
  return list;
}

std::uint64_t OptionMeter::choices_with_flops() const {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < std::min(block_.choices.size(), kMaxChoices); ++i) {
    const Index op = graph_.values[block_.choices[i]].producer;
    if (op >= 0 && graph_.ops[op].flops > 0) bits |= 1ULL << i;
  }
  return bits;
}

/// Per value, the event from which on replays leave it behind.
std::vector<Index> OptionMeter::cached_from(const Timing& timing) const {
  std::vector<Index> from(graph_.values.size(), 0);
  if (timing.just_in_time) {
    for (std::size_t v = 0; v < from.size(); ++v) {
      const bool is_demanded = first_demand_[v] < static_cast<Index>(graph_.events.size());
      if (is_demanded) from[v] = first_demand_[v];
    }
  }
  for (std::size_t i = 0; i < std::min(block_.choices.size(), kMaxChoices); ++i) {
    if (((timing.at_once >> i) & 1) != 0) from[block_.choices[i]] = 0;
  }
  for (const Index v : block_.inputs) {
    from[v] = in_ == CutFate::relayed ? first_demand_[v] : relays_ ? sweep_end_ : 0;
  }
  for (const Index v : block_.boundary) from[v] = relays_ ? sweep_end_ - 1 : 0;
  return from;
}

Simulation OptionMeter::simulate(KeptSet keep, const std::vector<Index>& from) {
  keep.resize(graph_.values.size(), 0);
  const bool at_once = std::ranges::all_of(from, [](Index t) { return t == 0; });
  if (at_once) return simulator_.run(keep, timeline_);
  return simulator_.run(keep, simulator_.defer(keep, from), timeline_);
}

std::int64_t OptionMeter::highest(Index begin, Index end) const {
  if (begin >= end) return 0;
  const auto peaks = std::span(timeline_.peak_bytes).subspan(begin, end - begin);
  return std::ranges::max(peaks);
}

/// Of replays that events of [begin, end) set off.
double OptionMeter::passing_cost(Index begin, Index end) const {
  double cost = 0;
  for (std::size_t i = 0; i < timeline_.replayed_ops.size(); ++i) {
    const Index t = timeline_.replay_events[i];
    if (t < begin || t >= end) continue;
    cost += replay_cost_.passing(graph_.ops[timeline_.replayed_ops[i]]);
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
