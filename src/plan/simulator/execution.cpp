#include "plan/simulator/execution.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

// Note [ The executor's rule ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The simulator is worth nothing unless it counts as the replay engine acts. What both do:
//
// Storages. A value is one content of a storage. An in-place op ends the content it reads and
// starts the next one in the same storage; handles refer to the last content only. A storage counts
// once, from the op that allocates it, for as long as the program owns it, the tape holds it or a
// replay has cached it. External values count nothing and never go away. Memory of one device is
// counted: what is on others has no bytes, and is made and let go all the same.
//
// Forward. An op needs its transient bytes above what is live; its fresh outputs stay. The tape
// holds an output from its creation if the plan keeps it or nothing can make it again. A value
// marked `snapshot` is cloned just before it is overwritten and the tape holds the clone; any other
// overwritten value is gone, must_keep or not. A death frees a storage the tape does not hold.
//
// Seal. wanted(v) = handles(v) + number of wanted ops that read v; an op is wanted if it makes a
// dropped (not held) value that is wanted. What is held and not wanted is let go.
//
// Demand. A live value costs nothing. Else the smallest closure of ops from live values is replayed
// in recorded order. An op that writes in place works on a clone if the content it overwrites must
// survive (it was live before, or a later op of the closure reads it) and takes the storage over if
// not. Then, outputs first: an output that is live already is a duplicate and freed at once; one
// with handles is cached; one that later ops of the closure read stays for the last of them; any
// other is freed at once. Last, the inputs made in this sweep and read for the last time are freed.
//
// Joined ops. Where an op that joins the one right before it is replayed after it, and nothing but
// itself wants what that has made, which is neither cached nor live, it takes the storage over and
// needs no bytes above it, as if it wrote in place.
//
// Listed sweeps. A plan may list what the sweep of a demanded value caches in place of "one with
// handles": the listed outputs that are wanted, handles or not, and the demanded value itself. So a
// value with handles that is not listed is replayed again when it is demanded, and a block boundary
// that autograd never saved can be listed. Demands that are not listed follow the rule above.
//
// Offload. A kept value may leave for host memory before the op after a given one of the forward
// pass, or before its end, and then counts only as long as the program owns it. It comes back, for
// as long as it is wanted, at the start of a sweep that reads it, at its own demand, or at the
// demand of the value that its plan names, ahead of what that demand replays; unless the program
// owns it at that moment.
//
// Rounding. A kept value may leave for a copy in bfloat16 instead, which counts half its bytes from
// then on and goes when the value is let go of, not before: the value may have to come back again.
//
// Release. The last handle frees a cached value, wanted or not, unless a sweep lists it: then it
// stays as long as it is wanted. wanted(v) falls by one; at zero a held value is let go, a listed
// one freed, and the producer of a dropped value stops being wanted once none of its dropped
// outputs is, which lowers wanted of its inputs in turn.

namespace gradrecomp::plan {

Execution::Execution(const Graph& graph) : graph_(graph) {
  state_.values.resize(graph_.values.size());
  state_.op_wanted.resize(graph_.ops.size());
  op_needed_.resize(graph_.ops.size());
}

std::vector<Absence> absences(std::span<const Offload> offloads,
                              std::span<const Rounding> roundings) {
  std::vector<Absence> absences;
  for (const auto& [value, leaves_after, returns_at] : offloads) {
    absences.push_back({value, leaves_after, returns_at, false});
  }
  for (const auto& [value, after] : roundings) absences.push_back({value, after, -1, true});
  std::ranges::sort(absences, {}, &Absence::value);
  return absences;
}

void Execution::begin(std::span<const Sweep> sweeps, std::vector<Absence> absences,
                      Timeline* timeline) {
  sweeps_ = sweeps;
  leaving_ = std::move(absences);
  returning_ = leaving_;
  std::ranges::stable_sort(leaving_, {}, &Absence::leaves_after);
  std::ranges::stable_sort(returning_, {}, &Absence::returns_at);
  timeline_ = timeline;
  std::ranges::fill(state_.values, ValueState{});
  std::ranges::fill(state_.op_wanted, 0);
  std::ranges::fill(op_needed_, 0);
  state_.live_bytes = 0;
  num_left_ = 0;
  seal_bytes_ = 0;
  replays_ = {};
  in_listed_sweep_ = false;
}

std::int64_t Execution::run_event(std::size_t t, std::span<const std::uint8_t> keep) {
  event_ = static_cast<Index>(t);
  peak_bytes_ = state_.live_bytes;
  apply(graph_.events[t], keep);
  return peak_bytes_;
}

void Execution::count_anew() {
  for (const Index v : reads_) is_read_[v] = 0;
  reads_.clear();
  reads_all_ = false;
  replays_ = {};
}

std::vector<Sweep> Execution::defer(std::span<const std::uint8_t> keep,
                                    std::span<const Index> cached_from) {
  begin({}, {}, nullptr);
  cached_from_ = cached_from;
  deferring_.clear();
  for (std::size_t t = 0; t < graph_.events.size(); ++t) run_event(t, keep);
  cached_from_ = {};
  return std::exchange(deferring_, {});
}

bool Execution::live(Index v) const {
  const ValueState& s = state_.values[v];
  return s.owned || (s.held && !s.away) || s.cached || graph_.values[v].producer < 0;
}

void Execution::apply(const Event& event, std::span<const std::uint8_t> keep) {
  switch (event.kind) {
    case EventKind::run_op:
      return run_op(event.id, keep);
    case EventKind::save:
      ++state_.values[event.id].handles;
      return;
    case EventKind::death:
      return end_ownership(event.id);
    case EventKind::outside:
      touch(state_.live_bytes + event.peak_bytes);
      state_.live_bytes += event.net_bytes;
      return touch(state_.live_bytes);
    case EventKind::seal:
      return seal();
    case EventKind::demand:
      return demand(event.id);
    case EventKind::release:
      return release(event.id);
    case EventKind::pass_end:
      return end_pass();
  }
}

void Execution::touch(std::int64_t bytes) { peak_bytes_ = std::max(peak_bytes_, bytes); }

void Execution::run_op(Index op, std::span<const std::uint8_t> keep) {
  if (!graph_.ops[op].is_part) leave_before(op);
  if (graph_.ops[op].in_place) {
    for (const Index w : graph_.outputs(op)) {
      if (graph_.values[w].overwrites >= 0) overwrite(graph_.values[w].overwrites);
    }
  }
  touch(state_.live_bytes + graph_.ops[op].transient_bytes);
  state_.live_bytes += graph_.ops[op].fresh_bytes;
  touch(state_.live_bytes);
  for (const Index w : graph_.outputs(op)) {
    state_.values[w].owned = true;
    state_.values[w].held =
        graph_.values[w].must_keep || (keep[w] != 0 && graph_.values[w].last_version);
  }
}

// What an op took in of a call that went unrecorded is there before the op is.
void Execution::leave_before(Index op) {
  if (num_left_ == leaving_.size()) return;
  const OpFacts& facts = graph_.ops[op];
  const std::int64_t early_bytes =
      std::max<std::int64_t>(facts.fresh_bytes - facts.transient_bytes, 0);
  state_.live_bytes += early_bytes;
  leave_after(op - 1);
  state_.live_bytes -= early_bytes;
}

void Execution::leave_after(Index op) {
  for (; num_left_ < leaving_.size() && leaving_[num_left_].leaves_after <= op; ++num_left_) {
    leave(leaving_[num_left_]);
  }
}

void Execution::leave(const Absence& absence) {
  ValueState& s = state_.values[absence.value];
  const std::int64_t bytes = graph_.values[absence.value].bytes;
  if (absence.rounded && !s.copied) {
    s.copied = true;
    state_.live_bytes += rounded_bytes(bytes);
    touch(state_.live_bytes);
  }
  s.away = true;
  if (!s.owned) state_.live_bytes -= bytes;
}

void Execution::bring_back(Index v) {
  ValueState& s = state_.values[v];
  s.away = false;
  state_.live_bytes += graph_.values[v].bytes;
  touch(state_.live_bytes);
  if (timeline_ == nullptr) return;
  timeline_->returned_values.push_back(v);
  timeline_->return_events.push_back(event_);
}

void Execution::bring_back_at(Index target) {
  auto due = std::ranges::lower_bound(returning_, target, {}, &Absence::returns_at);
  for (; due != returning_.end() && due->returns_at == target; ++due) {
    const ValueState& s = state_.values[due->value];
    if (s.held && s.away && !s.owned) bring_back(due->value);
  }
}

/// The storage of `v` goes over to the next content; a snapshot keeps this one in a clone.
void Execution::overwrite(Index v) {
  state_.values[v].owned = false;
  state_.values[v].held = graph_.values[v].snapshot;
  if (graph_.values[v].snapshot) state_.live_bytes += graph_.values[v].bytes;
}

void Execution::end_ownership(Index v) {
  note_read(v);
  if (!state_.values[v].owned) return;
  state_.values[v].owned = false;
  if (!state_.values[v].held || state_.values[v].away) state_.live_bytes -= graph_.values[v].bytes;
}

void Execution::seal() {
  leave_after(static_cast<Index>(graph_.ops.size()) - 1);
  for (ValueState& s : state_.values) s.dropped = !s.held;
  count_wanted();
  for (std::size_t v = 0; v < state_.values.size(); ++v) {
    if (state_.values[v].held && state_.values[v].wanted == 0) let_go(static_cast<Index>(v));
  }
  seal_bytes_ = state_.live_bytes;
  if (timeline_ == nullptr) return;
  for (const ValueState& s : state_.values) timeline_->held.push_back(s.held ? 1 : 0);
}

void Execution::count_wanted() {
  for (ValueState& s : state_.values) s.wanted = s.handles;
  for (auto op = static_cast<Index>(graph_.ops.size()) - 1; op >= 0; --op) {
    if (!wants_replay(op)) continue;
    state_.op_wanted[op] = 1;
    for (const Index u : graph_.inputs(op)) ++state_.values[u].wanted;
  }
}

bool Execution::wants_replay(Index op) const {
  return std::ranges::any_of(graph_.outputs(op), [this](Index w) {
    return state_.values[w].dropped && state_.values[w].wanted > 0;
  });
}

void Execution::let_go(Index v) {
  ValueState& s = state_.values[v];
  s.held = false;
  if (!s.owned && !s.away) state_.live_bytes -= graph_.values[v].bytes;
  if (std::exchange(s.copied, false)) state_.live_bytes -= rounded_bytes(graph_.values[v].bytes);
}

void Execution::release(Index v) {
  note_read(v);
  ValueState& s = state_.values[v];
  if (--s.handles == 0 && s.cached && !s.outlasts_handles) uncache(v);
  if (s.wanted > 0) lower_wanted(v);
}

/// Values that a pass brought back are still there, and go like those it made again.
void Execution::end_pass() {
  reads_all_ = true;
  for (std::size_t v = 0; v < state_.values.size(); ++v) {
    if (state_.values[v].cached) uncache(static_cast<Index>(v));
  }
  for (const Absence& absence : leaving_) {
    const ValueState& s = state_.values[absence.value];
    if (s.held && !s.away) leave(absence);
  }
}

void Execution::uncache(Index v) {
  state_.values[v].cached = false;
  state_.live_bytes -= graph_.values[v].bytes;
}

/// Counts one reason to want `first` less and follows the consequences towards the inputs.
void Execution::lower_wanted(Index first) {
  stack_.assign(1, first);
  while (!stack_.empty()) {
    const Index v = stack_.back();
    stack_.pop_back();
    note_read(v);
    ValueState& s = state_.values[v];
    if (--s.wanted > 0) continue;
    if (s.held) let_go(v);
    if (s.cached) uncache(v);
    const Index op = graph_.values[v].producer;
    if (!s.dropped || op < 0 || state_.op_wanted[op] == 0) continue;
    for (const Index w : graph_.outputs(op)) note_read(w);
    if (wants_replay(op)) continue;
    state_.op_wanted[op] = 0;
    for (const Index u : graph_.inputs(op)) stack_.push_back(u);
  }
}

void Execution::demand(Index target) {
  note_read(target);
  if (!returning_.empty()) bring_back_at(target);
  if (live(target)) return;
  if (!due_from_.empty()) return replay_deferring(target);
  if (!cached_from_.empty()) {
    note_deferring(target);
    sweeps_ = deferring_;
  }
  const Sweep* sweep = sweeps_.empty() ? nullptr : listed_sweep(target);
  if (sweep == nullptr) return replay_closure(target);
  run_listed(*sweep);
}

void Execution::run_listed(const Sweep& sweep) {
  in_listed_sweep_ = true;
  for (const Index v : sweep.cached) state_.values[v].listed = true;
  replay_closure(sweep.target);
  for (const Index v : sweep.cached) state_.values[v].listed = false;
  in_listed_sweep_ = false;
}

/// Lists the sweep of `target` if by itself it would leave other values behind than those due.
void Execution::note_deferring(Index target) {
  if (!find_due(target, cached_from_)) return;
  Sweep sweep{target, due_};
  std::ranges::sort(sweep.cached);
  const auto at = std::ranges::lower_bound(deferring_, target, {}, &Sweep::target);
  const bool known = at != deferring_.end() && at->target == target;
  if (known) *at = std::move(sweep);
  if (!known) deferring_.insert(at, std::move(sweep));
}

/// Finds what a sweep of `target` is to leave behind; false if it does so by itself.
bool Execution::find_due(Index target, std::span<const Index> from) {
  find_closure(target);
  due_.clear();
  bool lists = false;
  for (const Index op : closure_) {
    op_needed_[op] = 0;
    for (const Index v : graph_.outputs(op)) {
      if (v == target || live(v)) continue;
      const ValueState& s = state_.values[v];
      const bool shared = from[v] < 0 && event_ >= ~from[v] && s.wanted > 0;
      const bool due = shared || (s.handles > 0 && from[v] >= 0 && event_ >= from[v]);
      if (due && graph_.values[v].last_version) due_.push_back(v);
      lists |= shared || (s.handles > 0 && !due);
    }
  }
  return lists;
}

/// Replays what note_deferring() would list, at once.
void Execution::replay_deferring(Index target) {
  const bool lists = find_due(target, due_from_);
  if (!lists) return replay_closure(target);
  in_listed_sweep_ = true;
  for (const Index v : due_) state_.values[v].listed = true;
  replay_closure(target);
  for (const Index op : closure_) {
    for (const Index v : graph_.outputs(op)) state_.values[v].listed = false;
  }
  in_listed_sweep_ = false;
}

void Execution::note_read(Index v) {
  if (is_read_.empty() || is_read_[v] != 0) return;
  is_read_[v] = 1;
  reads_.push_back(v);
}

void Execution::note_closure() {
  for (const Index op : closure_) {
    for (const Index u : graph_.inputs(op)) note_read(u);
    for (const Index w : graph_.outputs(op)) note_read(w);
  }
}

const Sweep* Execution::listed_sweep(Index target) const {
  const auto sweep = std::ranges::lower_bound(sweeps_, target, {}, &Sweep::target);
  return sweep != sweeps_.end() && sweep->target == target ? &*sweep : nullptr;
}

void Execution::replay_closure(Index target) {
  find_closure(target);
  std::ranges::sort(closure_);
  for (const Index v : away_) {
    if (state_.values[v].away) bring_back(v);
  }
  for (const Index op : closure_) {
    for (const Index u : graph_.inputs(op)) ++state_.values[u].uses;
  }
  for (const Index op : closure_) replay(op, target);
  if (!is_read_.empty()) note_closure();
  for (const Index op : closure_) {
    op_needed_[op] = 0;
    for (const Index w : graph_.outputs(op)) state_.values[w].made = false;
  }
}

void Execution::find_closure(Index target) {
  closure_.clear();
  away_.clear();
  stack_.assign(1, target);
  while (!stack_.empty()) {
    const Index v = stack_.back();
    stack_.pop_back();
    if (state_.values[v].held) {
      away_.push_back(v);
      continue;
    }
    if (graph_.values[v].must_keep) {
      throw std::logic_error("simulate: value " + std::to_string(v) +
                             " cannot be replayed and is gone; GradRecomp bug, please report");
    }
    const Index op = graph_.values[v].producer;
    if (op_needed_[op] != 0) continue;
    op_needed_[op] = 1;
    closure_.push_back(op);
    for (const Index u : graph_.inputs(op)) {
      if (!live(u)) stack_.push_back(u);
    }
  }
}

void Execution::replay(Index op, Index target) {
  const OpFacts& facts = graph_.ops[op];
  const bool joined = facts.joins && joins_in(op);
  if (joined) {
    take_over(op);
  } else {
    if (facts.in_place) prepare_in_place(op);
    touch(state_.live_bytes + facts.replay_transient_bytes);
    state_.live_bytes += facts.fresh_bytes;
    touch(state_.live_bytes);
  }
  for (const Index w : graph_.outputs(op)) settle_output(w, target);
  for (const Index u : graph_.inputs(op)) settle_input(u);
  replays_.replay_seconds += joined ? facts.joined_seconds : facts.replay_seconds;
  replays_.replay_flops += facts.flops;
  replays_.replay_bytes_moved += facts.bytes_moved;
  ++replays_.num_replayed_ops;
  if (timeline_ == nullptr) return;
  timeline_->replayed_ops.push_back(op);
  timeline_->replay_events.push_back(event_);
}

/// Whether what the op right before `op` has just made is there for it alone.
bool Execution::joins_in(Index op) const {
  const ValueState& s = state_.values[graph_.outputs(op - 1).front()];
  return op_needed_[op - 1] != 0 && s.made && !s.cached && s.uses == 1;
}

void Execution::take_over(Index op) {
  const Index before = graph_.outputs(op - 1).front();
  state_.values[before].made = false;
  state_.live_bytes +=
      graph_.values[graph_.outputs(op).front()].bytes - graph_.values[before].bytes;
  touch(state_.live_bytes);
}

/// Gives each in-place output of `op` a storage: a clone, or the temporary it overwrites.
void Execution::prepare_in_place(Index op) {
  for (const Index w : graph_.outputs(op)) {
    const Index u = graph_.values[w].overwrites;
    if (u < 0) continue;
    ValueState& s = state_.values[u];
    const bool must_survive = !s.made || s.cached || s.uses > 1;
    if (must_survive) state_.live_bytes += graph_.values[u].bytes;
    if (!must_survive) s.made = false;
  }
}

void Execution::settle_output(Index v, Index target) {
  ValueState& s = state_.values[v];
  const bool duplicate = live(v) || s.held;
  if (!duplicate) cache(v, target);
  s.made = !duplicate && (s.cached || s.uses > 0 || v == target);
  if (!s.made) state_.live_bytes -= graph_.values[v].bytes;
}

void Execution::cache(Index v, Index target) {
  ValueState& s = state_.values[v];
  s.outlasts_handles = s.listed && s.wanted > 0;
  const bool by_handles = !in_listed_sweep_ || v == target;
  s.cached = s.outlasts_handles || (by_handles && s.handles > 0);
}

void Execution::settle_input(Index v) {
  ValueState& s = state_.values[v];
  if (--s.uses > 0 || !s.made || s.cached) return;
  s.made = false;
  state_.live_bytes -= graph_.values[v].bytes;
}

}  // namespace gradrecomp::plan
