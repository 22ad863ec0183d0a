#include "tracked_step.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/graph/choosable_values.h"

// Note [ Moments of ops ]
// ~~~~~~~~~~~~~~~~~~~~~~~
// A program that goes from the last op to the first has, at each op, decided about the values that
// entered at it or behind it. Of all others it must hold that they take the same bytes throughout
// the moments already compared: what is kept does from the program's letting go of it to its last
// release, what replays have left behind until it is released. So each event belongs to an op that
// lies no further in front than the entry of any value demanded before it, and the entry of a value
// is the op that reads it last, or behind it the op during which the program lets go of it, or the
// op of the event at which its bytes begin to differ. It also lies no further behind than the
// makers of what is yet to be demanded, so that these are still there to be decided about.

// Note [ Values not worth holding ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Backward does not ask for a sum of which it wants the square root. A plan that holds the sum,
// kept or left behind, could as well hold the root from then on: that takes as many bytes, for no
// longer than both of them together did, and one replay less. So where one op alone reads what
// another has made, and makes no more bytes of it, partial plans that hold it need not be looked
// at: it is made when it is asked for.
//
// But replays that make the root again may lead to other things that they leave behind on their
// way, at a time when there is room for those in passing: to whatever else the root is made of,
// and, if it is backward that asks for it, to anything. Where that may be, it is true by prices
// alone: by these, other things may as well be made when they are demanded.
//
// The same goes for what several ops read, as a product that is split into gates, if backward asks
// for something that each of them makes: all of that is made at once, whether the visit asks for it
// or not, and sooner or later it would be. Nor need such a value be kept, unless the program lets
// go of a gate before the product, and bytes count in between.

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kSmallPart = 2000;

/// What is held instead of a value, where that takes no more.
struct Instead {
  bool is_one = false;        ///< op that reads it
  bool leads_on = false;      ///< replays that make the value again may lead to others, too
  Index dies = Life::kNever;  ///< the event at which the first of what is held dies
};

/// Nothing if that takes more, or is not wanted.
std::optional<Instead> what_to_hold_instead(const Graph& graph, Index v,
                                            const std::vector<Index>& readers,
                                            const std::vector<Life>& lives) {
  const Value& x = graph.values[v];
  const bool is_alone = graph.ops[x.producer].outputs.size() == 1 && x.overwrites < 0;
  if (x.saved || readers.empty() || !is_alone) return std::nullopt;
  Instead instead{.is_one = readers.size() == 1};
  std::int64_t bytes = 0;
  for (const Index op : readers) {
    bool demanded = false;
    for (const Index w : graph.ops[op].outputs) {
      const Value& y = graph.values[w];
      if (y.overwritten_by >= 0 || y.overwrites >= 0 || y.snapshot) return std::nullopt;
      bytes += y.must_keep ? 0 : y.bytes;
      demanded |= y.saved && lives[w].is_demanded();
      instead.dies = std::min(instead.dies, lives[w].death);
    }
    if (!instead.is_one && !demanded) return std::nullopt;
    const bool reads_others = std::ranges::any_of(
        graph.ops[op].inputs, [&](Index u) { return u != v && graph.values[u].producer >= 0; });
    instead.leads_on |= demanded || reads_others;
  }
  return bytes <= x.bytes ? std::optional(instead) : std::nullopt;
}

bool is_of_life(EventKind kind) {
  return kind == EventKind::demand || kind == EventKind::release || kind == EventKind::death ||
         kind == EventKind::seal;
}

}  // namespace

TrackedStep::TrackedStep(const Graph& graph)
    : run_events_(graph.ops.size(), -1),
      base_bytes_(graph.events.size()),
      inputs_(graph.ops.size()),
      outputs_(graph.ops.size()),
      entering_(graph.ops.size() + 1),
      bytes_before_(graph.ops.size() + 1),
      moments_(graph.ops.size() + 1) {
  find_phases(graph);
  if (!is_simple_) return;
  base_bytes_ = bytes_under_every_plan(graph);
  const auto readers = find_readers(graph);
  find_values(graph, readers, find_lives(graph, readers));
  do {
    find_entries(graph);
  } while (drop_smallest_of_many());
  list_values(graph);
  list_moments(graph);
}

void TrackedStep::find_phases(const Graph& graph) {
  for (std::size_t t = 0; t < graph.events.size(); ++t) {
    const Event& event = graph.events[t];
    const bool sealed = seal_ >= 0;
    switch (event.kind) {
      case EventKind::seal:
        is_simple_ = is_simple_ && !sealed;
        seal_ = static_cast<Index>(t);
        break;
      case EventKind::run_op:
        is_simple_ = is_simple_ && !sealed;
        run_events_[event.id] = static_cast<Index>(t);
        break;
      case EventKind::demand:
        is_simple_ = is_simple_ && sealed;
        break;
      case EventKind::pass_end:
        is_simple_ = false;
        break;
      default:
        break;
    }
  }
  is_simple_ = is_simple_ && seal_ >= 0;
}

void TrackedStep::find_values(const Graph& graph, const std::vector<std::vector<Index>>& readers,
                              const std::vector<Life>& lives) {
  tracked_of_.assign(graph.values.size(), -1);
  std::vector<std::uint8_t> made_if_left(graph.values.size(), 0);
  const std::int64_t small_bytes = saved_bytes(graph) / kSmallPart;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& x = graph.values[v];
    const Life& life = lives[v];
    if (x.producer < 0 || x.snapshot) continue;
    if (x.must_keep) {
      add_base(x, life);
      continue;
    }
    const bool choosable = x.overwritten_by < 0;
    const bool owned = choosable && (life.death == Life::kNever || life.death > seal_);
    const bool demanded = choosable && x.saved && life.is_demanded();
    if (owned && demanded) is_simple_ = false;
    const bool matters = demanded || (x.bytes > small_bytes && !readers[v].empty());
    if (owned || !matters) continue;
    const auto instead = what_to_hold_instead(graph, static_cast<Index>(v), readers[v], lives);
    const bool never_pays =
        instead && instead->is_one && !instead->leads_on && instead->dies >= life.death;
    if (instead && !instead->is_one) {
      for (const Index op : readers[v]) {
        for (const Index w : graph.ops[op].outputs) made_if_left[w] = 1;
      }
    }
    tracked_of_[v] = static_cast<Index>(values_.size());
    values_.push_back({.producer = x.producer,
                       .entry = readers[v].empty() ? x.producer : readers[v].back(),
                       .first_reader = readers[v].empty() ? -1 : readers[v].front(),
                       .demanded = demanded,
                       .choosable = choosable && !never_pays,
                       .pays_by_loads = instead.has_value(),
                       .made_of_it_dies = instead ? instead->dies : -1,
                       .made_if_left = made_if_left[v] != 0,
                       .has_sibling = graph.ops[x.producer].outputs.size() > 1,
                       .bytes = x.bytes,
                       .passing_bytes = choosable ? x.bytes : 0,
                       .life = life});
  }
}

/// Of a value that every plan keeps.
void TrackedStep::add_base(const Value& value, const Life& life) {
  if (!value.saved || value.overwritten_by >= 0 || !life.is_demanded()) return;
  for (Index t = life.death + 1; t <= life.release; ++t) base_bytes_[t] += value.bytes;
}

void TrackedStep::find_entries(const Graph& graph) {
  const auto demanded_at = [&](std::size_t t) -> TrackedValue* {
    const Event& event = graph.events[t];
    if (event.kind != EventKind::demand || tracked_of_[event.id] < 0) return nullptr;
    TrackedValue& x = values_[tracked_of_[event.id]];
    return x.demanded && x.life.demand == static_cast<Index>(t) ? &x : nullptr;
  };
  std::vector<Index> last_maker(graph.events.size(), 0);  // of what is demanded from then on
  Index maker = 0;
  for (std::size_t t = graph.events.size(); t-- > 0;) {
    if (const TrackedValue* x = demanded_at(t)) maker = std::max(maker, x->producer);
    last_maker[t] = maker;
  }
  op_of_event_.assign(graph.events.size(), 0);
  Index op = 0;
  for (Index t = 0; t < seal_; ++t) {
    if (graph.events[t].kind == EventKind::run_op) op = graph.events[t].id;
    op_of_event_[t] = op;
  }
  for (TrackedValue& x : values_) {
    if (x.choosable) x.entry = std::max(x.entry, op_of_event_[x.life.death]);
  }
  op = num_ops();
  for (std::size_t t = static_cast<std::size_t>(seal_); t < graph.events.size(); ++t) {
    TrackedValue* x = demanded_at(t);
    if (x != nullptr) op = std::min(op, x->entry);
    op_of_event_[t] = op < num_ops() ? std::max(op, last_maker[t]) : op;
    if (x != nullptr) x->entry = std::max(x->entry, op_of_event_[t]);
  }
  for (TrackedValue& x : values_) {
    const bool ends_in_backward = x.choosable && !x.demanded && x.life.release > seal_;
    if (!ends_in_backward) continue;
    const Index op_then = op_of_event_[x.life.release];
    if (op_then < num_ops()) {
      x.entry = std::max(x.entry, op_then);
    } else {  // Before the first demand nothing is decided yet, so it takes nothing.
      x.life.release = seal_;
      x.bytes = 0;
    }
  }
}

/// False if nowhere more are alive at once than a program can tell apart.
bool TrackedStep::drop_smallest_of_many() {
  std::vector<std::vector<Index>> makes(inputs_.size());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    makes[values_[i].producer].push_back(static_cast<Index>(i));
  }
  std::vector<Index> alive;
  std::vector<std::uint8_t> drops(values_.size(), 0);
  for (Index op = 0; op < num_ops(); ++op) {
    for (const Index i : makes[op]) alive.push_back(i);
    std::erase_if(alive, [&](Index i) { return values_[i].entry < op || drops[i] != 0; });
    while (alive.size() > kMostAtOnce) {
      const auto least = std::ranges::min_element(
          alive, {}, [&](Index i) { return std::pair(values_[i].demanded, values_[i].bytes); });
      is_simple_ = is_simple_ && !values_[*least].demanded;
      drops[*least] = 1;
      alive.erase(least);
    }
  }
  // Backward asks for it before any op is reached at which it could be decided about.
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].entry < num_ops()) continue;
    is_simple_ = is_simple_ && !values_[i].demanded;
    drops[i] = 1;
  }
  if (std::ranges::count(drops, 1) == 0) return false;
  std::vector<TrackedValue> left;
  std::vector<Index> place(values_.size(), -1);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (drops[i] != 0) continue;
    place[i] = static_cast<Index>(left.size());
    left.push_back(values_[i]);
  }
  for (Index& tracked : tracked_of_) tracked = tracked < 0 ? tracked : place[tracked];
  values_ = std::move(left);
  return true;
}

void TrackedStep::list_values(const Graph& graph) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    TrackedValue& x = values_[i];
    entering_[x.entry].push_back(static_cast<Index>(i));
    outputs_[x.producer].push_back(static_cast<Index>(i));
    const Index behind = x.entry + 1 < num_ops() ? run_events_[x.entry + 1] : seal_;
    const bool held = x.choosable && x.life.death < behind && x.life.release > 0;
    x.kept_bytes = held ? x.bytes : 0;
  }
  for (Index op = 0; op < num_ops(); ++op) {
    for (const Index u : graph.ops[op].inputs) {
      const Index i = tracked_of_[u];
      if (i >= 0 && values_[i].producer != op) inputs_[op].push_back(i);
    }
  }
  for (Index op = 0; op < num_ops(); ++op) {
    bytes_before_[op + 1] = bytes_before_[op];
    for (const Index i : entering_[op]) bytes_before_[op + 1] += values_[i].bytes;
  }
}

/// Of neighbours between which nothing begins or ends only the highest matters.
void TrackedStep::list_moments(const Graph& graph) {
  for (std::size_t t = 0; t < graph.events.size(); ++t) {
    const Event& event = graph.events[t];
    Moment moment{static_cast<Index>(t), base_bytes_[t], static_cast<Index>(t) >= seal_};
    if (event.kind == EventKind::demand && tracked_of_[event.id] >= 0) {
      const TrackedValue& x = values_[tracked_of_[event.id]];
      if (x.demanded && x.life.demand == moment.event) moment.demanded = tracked_of_[event.id];
    }
    auto& list = moments_[op_of_event_[t]];
    const bool alike = !list.empty() && list.back().event + 1 == moment.event &&
                       !is_of_life(event.kind) && !is_of_life(graph.events[t - 1].kind) &&
                       list.back().in_backward == moment.in_backward;
    if (!alike) {
      list.push_back(moment);
    } else {
      moment.base_bytes = std::max(moment.base_bytes, list.back().base_bytes);
      list.back() = moment;
    }
  }
}

}  // namespace gradrecomp::plan
