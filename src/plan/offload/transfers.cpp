#include "transfers.h"

#include <algorithm>
#include <cstddef>

// Note [ Transfers ]
// ~~~~~~~~~~~~~~~~~~
// The link carries one value at a time each way: to the host in the order in which they are made,
// and back in the order in which they are needed. A value leaves when its op has ended, and gives
// up its device's memory after the first op that ends after its arrival. It starts back as late as
// still brings it in time, at a demand, as demands are what the replay engine sees of backward.
// What cannot be in time stalls the step: forward's end waits for the last arrival, backward for
// the first need that is late.
//
// Backward is only measured as a whole. Its seconds are spread over demands as forward's are over
// the ops that read what is demanded. Replays give transfers more time than is counted on here.
//
// A link that overlaps nothing stalls the step for every transfer, and then the best moments are
// the first to leave at and the last to come back at.

namespace gradrecomp::plan {
namespace {

/// Measured times vary; a transfer is given this much more.
constexpr double kMargin = 1.25;

/// An op's seconds in the plain step; 0 for a part of a call, whose seconds the call has.
double plain_seconds(const Op& op) { return op.forward_seconds > 0 ? op.replay_seconds : 0; }

}  // namespace

Transfers::Transfers(const Graph& graph, const HostLink& link) : graph_(graph), link_(link) {
  time_ops();
  time_events();
}

void Transfers::time_ops() {
  double now = 0;
  for (const Op& op : graph_.ops) op_ends_.push_back(now += plain_seconds(op));
}

void Transfers::time_events() {
  std::vector<Index> last_reader(graph_.values.size(), -1);
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    for (const Index v : graph_.ops[i].inputs) last_reader[v] = static_cast<Index>(i);
  }
  const double forward = op_ends_.empty() ? 0 : op_ends_.back();
  const double backward = std::max(0.0, graph_.step_seconds - forward);
  double left = forward;  // of forward, whose ops backward has not come to yet
  std::vector<std::uint8_t> demanded(graph_.values.size(), 0);
  for (std::size_t t = 0; t < graph_.events.size(); ++t) {
    const EventKind kind = graph_.events[t].kind;
    const Index v = graph_.events[t].id;
    if (kind == EventKind::demand) {
      const Index op = std::max(last_reader[v], graph_.values[v].producer);
      if (op >= 0) left = std::min(left, op_ends_[op]);
      if (demanded[v] == 0) starts_.push_back(static_cast<Index>(t));
      demanded[v] = 1;
    }
    event_seconds_.push_back(forward > 0 ? backward * (1 - left / forward) : 0);
  }
}

TransferSchedule Transfers::schedule(std::vector<Need> needs) const {
  std::ranges::sort(needs, {}, &Need::value);
  TransferSchedule schedule;
  for (const Need& need : needs) schedule.offloads.push_back({.value = need.value});
  schedule.stall_seconds = leave(schedule.offloads) + come_back(schedule.offloads, needs);
  return schedule;
}

/// Returns the seconds of stall.
double Transfers::leave(std::vector<Offload>& offloads) const {
  double arrival = 0;
  double stall = 0;
  std::vector<Offload*> by_producer;
  for (Offload& offload : offloads) by_producer.push_back(&offload);
  const auto producer = [&](const Offload* o) { return graph_.values[o->value].producer; };
  std::ranges::stable_sort(by_producer, {}, producer);
  for (Offload* offload : by_producer) {
    const Index made_by = producer(offload);
    const double seconds =
        static_cast<double>(graph_.values[offload->value].bytes) / link_.store_bytes_per_second;
    offload->leaves_after = made_by;
    if (!link_.overlaps) {
      stall += seconds;
      continue;
    }
    arrival = std::max(arrival, op_ends_[made_by]) + kMargin * seconds;
    const auto first = std::lower_bound(op_ends_.begin() + made_by, op_ends_.end(), arrival);
    const bool in_time = first != op_ends_.end();
    offload->leaves_after = in_time ? static_cast<Index>(first - op_ends_.begin())
                                    : static_cast<Index>(op_ends_.size()) - 1;
    if (!in_time) stall = arrival - op_ends_.back();
  }
  return stall;
}

/// Sets when the offloaded values come back. Both lists are sorted by value. Returns the seconds of
/// stall.
double Transfers::come_back(std::vector<Offload>& offloads, std::span<const Need> needs) const {
  double stall = 0;
  double next_start = event_seconds_.empty() ? 0 : event_seconds_.back();
  std::vector<std::size_t> last_first(needs.size());
  for (std::size_t i = 0; i < needs.size(); ++i) last_first[i] = i;
  std::ranges::stable_sort(last_first, std::ranges::greater{},
                           [&](std::size_t i) { return needs[i].event; });
  for (const std::size_t i : last_first) {
    const double seconds =
        static_cast<double>(graph_.values[needs[i].value].bytes) / link_.fetch_bytes_per_second;
    if (!link_.overlaps) {
      stall += seconds;
      continue;
    }
    next_start = std::min(next_start, event_seconds_[needs[i].event]) - kMargin * seconds;
    stall = std::max(stall, -next_start);
    const Index start = last_start(next_start, needs[i].event);
    offloads[i].returns_at = start >= 0 ? graph_.events[start].id : -1;
  }
  return stall;
}

/// The last start that is at or before a second of backward and no later than an event; the first
/// start if all are after the second; -1 if there is none up to the event.
Index Transfers::last_start(double second, Index event) const {
  Index found = -1;
  for (const Index start : starts_) {
    if (start > event || (found >= 0 && event_seconds_[start] > second)) break;
    found = start;
  }
  return found;
}

}  // namespace gradrecomp::plan
