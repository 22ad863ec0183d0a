#include "plan/simulator/incremental.h"

#include <algorithm>
#include <utility>

#include "plan/graph/wanted_values.h"

// Note [ What a move changes ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Forward: a value that changes sides is held or not from its death to the seal, and nothing else
// is different. Seal: what is wanted changes for the inputs of ops that are wanted now or no more,
// and so on up the graph. Backward is known in segments, each with the state at its begin and the
// values whose states its events read. Where none of these differs, the segment does what it did
// before, at an offset of live bytes, and what differed at its begin differs at its end. So it is
// passed over. Else it is simulated in a draft of its state at the begin with the differences
// patched in, and of the draft only what was touched is copied back afterwards. What differs at its
// end is found among the values that were read then or before. An accepted attempt is patched into
// the states of all segments.

namespace gradrecomp::plan {
namespace {

constexpr std::size_t kMostSegments = 64;  // as many as `readers_` has bits
constexpr std::size_t kFewestEvents = 16;

void add_cost(Simulation& sum, const Simulation& part) {
  sum.replay_seconds += part.replay_seconds;
  sum.replay_flops += part.replay_flops;
  sum.replay_bytes_moved += part.replay_bytes_moved;
  sum.num_replayed_ops += part.num_replayed_ops;
}

}  // namespace

IncrementalSimulator::IncrementalSimulator(const Graph& graph) : execution_(graph) {
  const auto is_seal = [](const Event& event) { return event.kind == EventKind::seal; };
  seal_ =
      static_cast<std::size_t>(std::ranges::find_if(graph.events, is_seal) - graph.events.begin());
  execution_.watch_reads();
  is_noted_.assign(graph.values.size(), 0);
  readers_.assign(graph.values.size(), 0);
  next_peaks_.assign(graph.events.size(), 0);
  find_deaths();
  cut_segments();
}

void IncrementalSimulator::find_deaths() {
  death_.assign(graph().values.size(), seal_);
  for (std::size_t t = 0; t < seal_; ++t) {
    const Event& event = graph().events[t];
    if (event.kind == EventKind::death) death_[event.id] = t;
  }
}

void IncrementalSimulator::cut_segments() {
  const std::size_t num_events = graph().events.size() - seal_ - 1;
  const std::size_t num_segments =
      std::clamp<std::size_t>(num_events / kFewestEvents, 1, kMostSegments);
  segments_.resize(num_segments + 1);
  for (std::size_t s = 0; s <= num_segments; ++s) {
    segments_[s].begin = seal_ + 1 + num_events * s / num_segments;
    if (s > 0) segments_[s - 1].end = segments_[s].begin;
  }
  segments_.back().end = segments_.back().begin;
  changes_.resize(segments_.size());
  std::vector<std::size_t> begins;
  for (const Segment& segment : segments_) begins.push_back(segment.begin);
  peaks_.cut(begins);
}

void IncrementalSimulator::start(KeptSet keep, std::vector<Index> cached_from) {
  from_ = std::move(cached_from);
  from_.resize(graph().values.size(), 0);
  execution_.begin({}, {}, nullptr);
  num_deferred_ = std::ranges::count_if(from_, [](Index from) { return from != 0; });
  defer_if_any();
  now_ = {};
  for (std::size_t t = 0; t <= seal_; ++t) next_peaks_[t] = execution_.run_event(t, keep);
  sealed_ = execution_.state().values;
  sealed_op_wanted_ = execution_.state().op_wanted;
  std::ranges::fill(readers_, 0);
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    Segment& segment = segments_[s];
    segment.state = execution_.state();
    segment.draft = segment.state;
    if (s + 1 == segments_.size()) break;
    run(s);
    note_reads(s, execution_.reads());
    segment.reads_all = execution_.reads_all();
    segment.cost = execution_.replays();
    add_cost(now_.cost, segment.cost);
  }
  peaks_.set(0, next_peaks_);
  static_cast<PeakSum&>(now_) = peaks_.sum();
  undo_.clear();
  undo_ops_.clear();
  undo_from_.clear();
  std::ranges::fill(is_noted_, 0);
}

void IncrementalSimulator::aim_at(std::int64_t target_bytes) {
  peaks_.aim_at(target_bytes);
  static_cast<PeakSum&>(now_) = peaks_.sum();
}

bool IncrementalSimulator::reads(std::size_t segment, Index v) const {
  return (readers_[v] >> segment & 1) != 0;
}

/// Instead of what the segment was known to read.
void IncrementalSimulator::note_reads(std::size_t segment, const std::vector<Index>& reads) {
  const std::uint64_t bit = std::uint64_t{1} << segment;
  for (const Index v : segments_[segment].reads) readers_[v] &= ~bit;
  for (const Index v : reads) readers_[v] |= bit;
  segments_[segment].reads = reads;
}

KeptSet IncrementalSimulator::kept() const {
  KeptSet keep(sealed_.size());
  for (std::size_t v = 0; v < keep.size(); ++v) keep[v] = sealed_[v].dropped ? 0 : 1;
  return keep;
}

/// Runs the events of a segment from where the simulator stands.
void IncrementalSimulator::run(std::size_t segment) {
  execution_.count_anew();
  for (std::size_t t = segments_[segment].begin; t < segments_[segment].end; ++t) {
    next_peaks_[t] = execution_.run_event(t, {});
  }
}

const Outcome& IncrementalSimulator::attempt(std::span<const Move> moves) {
  undo();
  next_ = {};
  num_patches_ = 0;
  offset_bytes_ = 0;
  forward_.clear();
  for (const Move& move : moves) change_seal(move);
  defer_if_any();
  count_forward();
  patch_seal(moves);
  std::uint64_t moved = 0;
  for (const Move& move : undo_from_) moved |= readers_[move.value];
  std::uint64_t affected = moved | readers_of(patches_.front());
  for (std::size_t s = 0; s + 1 < segments_.size(); ++s) {
    Change& change = changes_[s];
    change.patches = num_patches_ - 1;
    change.offset_bytes = offset_bytes_;
    change.simulated = segments_[s].reads_all || (affected >> s & 1) != 0;
    if (change.simulated) {
      simulate_segment(s);
      affected = moved | readers_of(patches_[num_patches_ - 1]);
    } else {
      peaks_.add_to(next_, segments_[s].begin, segments_[s].end, offset_bytes_);
      add_cost(next_.cost, segments_[s].cost);
    }
  }
  changes_.back().patches = num_patches_ - 1;
  changes_.back().offset_bytes = offset_bytes_;
  return next_;
}

/// Back to the current plan.
void IncrementalSimulator::undo() {
  for (const Undo& u : undo_) {
    sealed_[u.value] = u.state;
    is_noted_[u.value] = 0;
  }
  for (const Index op : undo_ops_) sealed_op_wanted_[op] ^= 1;
  for (const Move& move : undo_from_) set_from(move.value, move.cached_from);
  undo_.clear();
  undo_ops_.clear();
  undo_from_.clear();
}

void IncrementalSimulator::set_from(Index v, Index from) {
  num_deferred_ += (from != 0 ? 1 : 0) - (from_[v] != 0 ? 1 : 0);
  from_[v] = from;
}

/// A plan that defers nothing is simulated faster as one that cannot.
void IncrementalSimulator::defer_if_any() {
  execution_.leave_behind(num_deferred_ > 0 ? std::span<const Index>(from_)
                                            : std::span<const Index>());
}

ValueState& IncrementalSimulator::sealed(Index v) {
  if (is_noted_[v] == 0) {
    is_noted_[v] = 1;
    undo_.push_back({v, sealed_[v]});
  }
  return sealed_[v];
}

void IncrementalSimulator::change_seal(const Move& move) {
  const Index v = move.value;
  if (from_[v] != move.cached_from) {
    undo_from_.push_back({v, false, from_[v]});
    set_from(v, move.cached_from);
  }
  ValueState& s = sealed(v);
  if (s.dropped != move.keep) return;
  s.dropped = !move.keep;
  const Index op = graph().values[v].producer;
  if (s.wanted == 0) return;
  hold(v, move.keep);
  if (!move.keep && sealed_op_wanted_[op] == 0) want_op(op);
  if (move.keep && sealed_op_wanted_[op] != 0 && !wants_replay(op)) want_op_no_more(op);
}

/// A value that is wanted and kept is held.
void IncrementalSimulator::hold(Index v, bool held) {
  ValueState& s = sealed(v);
  const ValueFacts& facts = graph().values[v];
  s.held = held;
  const std::int64_t bytes = held ? facts.bytes : -facts.bytes;
  if (!s.owned) offset_bytes_ += bytes;
  // Those of no choice are held in forward in any case.
  const bool from_death = !facts.must_keep && facts.last_version && death_[v] < seal_;
  if (from_death) forward_.push_back({death_[v] + 1, bytes});
}

bool IncrementalSimulator::wants_replay(Index op) const {
  return std::ranges::any_of(
      graph().outputs(op), [this](Index w) { return sealed_[w].dropped && sealed_[w].wanted > 0; });
}

void IncrementalSimulator::want_op(Index first) {
  stack_.assign(1, first);
  while (!stack_.empty()) {
    const Index op = stack_.back();
    stack_.pop_back();
    if (sealed_op_wanted_[op] != 0) continue;
    sealed_op_wanted_[op] = 1;
    undo_ops_.push_back(op);
    for (const Index w : graph().outputs(op)) sealed(w);
    for (const Index u : graph().inputs(op)) {
      ValueState& s = sealed(u);
      if (++s.wanted > 1) continue;
      if (!s.dropped) hold(u, true);
      const Index producer = graph().values[u].producer;
      if (s.dropped && producer >= 0) stack_.push_back(producer);
    }
  }
}

void IncrementalSimulator::want_op_no_more(Index first) {
  stack_.assign(1, first);
  while (!stack_.empty()) {
    const Index op = stack_.back();
    stack_.pop_back();
    if (sealed_op_wanted_[op] == 0 || wants_replay(op)) continue;
    sealed_op_wanted_[op] = 0;
    undo_ops_.push_back(op);
    for (const Index w : graph().outputs(op)) sealed(w);
    for (const Index u : graph().inputs(op)) {
      ValueState& s = sealed(u);
      if (--s.wanted > 0) continue;
      if (s.held) hold(u, false);
      const Index producer = graph().values[u].producer;
      if (s.dropped && producer >= 0) stack_.push_back(producer);
    }
  }
}

/// Notes the values that differ at the seal, and those of the moves, which may differ only in when
/// they are cached.
void IncrementalSimulator::patch_seal(std::span<const Move> moves) {
  if (patches_.empty()) patches_.emplace_back();
  std::vector<Patch>& patches = patches_.front();
  patches.clear();
  num_patches_ = 1;
  for (const Move& move : moves) sealed(move.value);
  for (const Undo& u : undo_) {
    const Index op = graph().values[u.value].producer;
    patches.push_back(
        {u.value, sealed_[u.value], op < 0 ? std::uint8_t{0} : sealed_op_wanted_[op]});
  }
}

/// The segments that read what differs, a bit for each.
std::uint64_t IncrementalSimulator::readers_of(const std::vector<Patch>& patches) const {
  std::uint64_t readers = 0;
  for (const Patch& patch : patches) readers |= readers_[patch.value];
  return readers;
}

void IncrementalSimulator::simulate_segment(std::size_t segment) {
  Segment& known = segments_[segment];
  const std::vector<Patch>& patches = patches_[changes_[segment].patches];
  std::swap(execution_.state(), known.draft);
  patch(execution_.state(), patches);
  execution_.state().live_bytes = known.state.live_bytes + offset_bytes_;
  run(segment);
  const std::int64_t target_bytes = peaks_.target_bytes();
  for (std::size_t t = known.begin; t < known.end; ++t) next_.add(next_peaks_[t], target_bytes);
  add_cost(next_.cost, execution_.replays());
  changes_[segment].cost = execution_.replays();
  changes_[segment].reads = execution_.reads();
  collect_patches(segment);
  offset_bytes_ = execution_.state().live_bytes - segments_[segment + 1].state.live_bytes;
  std::swap(execution_.state(), known.draft);
  restore(known, patches_[changes_[segment].patches]);
}

/// After an attempt has run in the draft.
void IncrementalSimulator::restore(Segment& segment, const std::vector<Patch>& patches) {
  if (execution_.reads_all()) {
    segment.draft = segment.state;
    return;
  }
  const auto restore_value = [&](Index v) {
    segment.draft.values[v] = segment.state.values[v];
    const Index op = graph().values[v].producer;
    if (op >= 0) segment.draft.op_wanted[op] = segment.state.op_wanted[op];
  };
  for (const Index v : execution_.reads()) restore_value(v);
  for (const Patch& patch : patches) restore_value(patch.value);
}

void IncrementalSimulator::patch(StepState& state, const std::vector<Patch>& patches) const {
  for (const Patch& patch : patches) {
    state.values[patch.value] = patch.state;
    const Index op = graph().values[patch.value].producer;
    if (op >= 0) state.op_wanted[op] = patch.op_wanted;
  }
}

/// What differs at the end of a segment that was just simulated.
void IncrementalSimulator::collect_patches(std::size_t segment) {
  const StepState& now = execution_.state();
  const StepState& after = segments_[segment + 1].state;
  if (patches_.size() == num_patches_) patches_.emplace_back();
  const std::vector<Patch>& before = patches_[changes_[segment].patches];
  std::vector<Patch>& patches = patches_[num_patches_++];
  patches.clear();
  const auto compare = [&](Index v) {
    const Index op = graph().values[v].producer;
    const std::uint8_t op_wanted = op < 0 ? std::uint8_t{0} : now.op_wanted[op];
    const std::uint8_t was_wanted = op < 0 ? std::uint8_t{0} : after.op_wanted[op];
    if (now.values[v] == after.values[v] && op_wanted == was_wanted) return;
    patches.push_back({v, now.values[v], op_wanted});
  };
  const auto is_old = [&](Index v) { return execution_.is_read()[v] == 0; };
  for (const Index v : execution_.reads()) compare(v);
  for (const Index v : segments_[segment].reads) {
    if (is_old(v)) compare(v);
  }
  for (const Patch& patch : before) {
    if (is_old(patch.value) && !reads(segment, patch.value)) compare(patch.value);
  }
}

void IncrementalSimulator::count_forward() {
  std::ranges::sort(forward_, {}, &ForwardStep::event);
  for_each_forward_part([this](std::size_t begin, std::size_t end, std::int64_t offset_bytes) {
    peaks_.add_to(next_, begin, end, offset_bytes);
  });
}

/// Calls `visit` with parts of forward and by how many bytes the last attempt offsets each.
template <typename Visit>
void IncrementalSimulator::for_each_forward_part(Visit visit) const {
  std::size_t begin = 0;
  std::int64_t offset_bytes = 0;
  for (const ForwardStep& step : forward_) {
    visit(begin, step.event, offset_bytes);
    begin = step.event;
    offset_bytes += step.bytes;
  }
  visit(begin, seal_ + 1, offset_bytes);
}

void IncrementalSimulator::accept() {
  for_each_forward_part([this](std::size_t begin, std::size_t end, std::int64_t offset_bytes) {
    if (offset_bytes != 0) peaks_.raise(begin, end, offset_bytes);
  });
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    Segment& segment = segments_[s];
    Change& change = changes_[s];
    patch(segment.state, patches_[change.patches]);
    patch(segment.draft, patches_[change.patches]);
    segment.state.live_bytes += change.offset_bytes;
    if (s + 1 == segments_.size()) break;
    if (change.simulated) {
      const std::span peaks(next_peaks_);
      peaks_.set(segment.begin, peaks.subspan(segment.begin, segment.end - segment.begin));
      note_reads(s, change.reads);
      segment.cost = change.cost;
    } else if (change.offset_bytes != 0) {
      peaks_.raise(segment.begin, segment.end, change.offset_bytes);
    }
  }
  for (const Undo& u : undo_) is_noted_[u.value] = 0;
  undo_.clear();
  undo_ops_.clear();
  undo_from_.clear();
  now_ = next_;
}

}  // namespace gradrecomp::plan
