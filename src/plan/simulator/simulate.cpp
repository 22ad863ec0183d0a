#include "gradrecomp/plan/simulate.h"

#include <algorithm>
#include <cstddef>
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
// Offload. A kept value may leave for host memory when an op of the forward pass has ended, and
// then counts only as long as the program owns it. It comes back, for as long as it is wanted, at
// the start of a sweep that reads it, at its own demand, or at the demand of the value that its
// plan names, ahead of what that demand replays; unless the program owns it at that moment.
//
// Release. The last handle frees a cached value, wanted or not, unless a sweep lists it: then it
// stays as long as it is wanted. wanted(v) falls by one; at zero a held value is let go, a listed
// one freed, and the producer of a dropped value stops being wanted once none of its dropped
// outputs is, which lowers wanted of its inputs in turn.

namespace gradrecomp::plan {

namespace {

/// Empties it but keeps its memory, as small graphs are run by the thousand.
void clear(Timeline& timeline) {
  timeline.live_bytes.clear();
  timeline.peak_bytes.clear();
  timeline.held.clear();
  timeline.replayed_ops.clear();
  timeline.replay_events.clear();
  timeline.returned_values.clear();
  timeline.return_events.clear();
}

/// What of `bytes` is memory of the main device.
std::int64_t on_main_device(std::int64_t bytes, Index device) { return device == 0 ? bytes : 0; }

}  // namespace

Simulator::Simulator(const Graph& graph) : events_(graph.events) {
  validate(graph);
  for (Event& event : events_) {
    event.net_bytes = on_main_device(event.net_bytes, event.device);
    event.peak_bytes = on_main_device(event.peak_bytes, event.device);
  }
  for (const Value& v : graph.values) {
    values_.push_back({on_main_device(v.bytes, v.device), v.producer, v.overwrites, v.must_keep,
                       v.snapshot, v.overwritten_by < 0});
  }
  for (const Op& op : graph.ops) {
    OpFacts facts{.transient_bytes = forward_transient_bytes(op),
                  .replay_seconds = op.replay_seconds,
                  .joined_seconds = op.joined_seconds,
                  .flops = op.flops,
                  .bytes_moved = op.bytes_moved,
                  .joins = op.joins};
    facts.inputs_begin = static_cast<Index>(op_inputs_.size());
    op_inputs_.insert(op_inputs_.end(), op.inputs.begin(), op.inputs.end());
    facts.inputs_end = static_cast<Index>(op_inputs_.size());
    facts.outputs_begin = static_cast<Index>(op_outputs_.size());
    op_outputs_.insert(op_outputs_.end(), op.outputs.begin(), op.outputs.end());
    facts.outputs_end = static_cast<Index>(op_outputs_.size());
    for (const Index v : op.outputs) {
      const bool fresh = graph.values[v].overwrites < 0;
      facts.fresh_bytes += fresh ? values_[v].bytes : 0;
      facts.in_place |= !fresh;
    }
    facts.replay_transient_bytes = op.by_kernel ? facts.fresh_bytes : op.transient_bytes;
    ops_.push_back(facts);
  }
  state_.resize(values_.size());
  op_wanted_.resize(ops_.size());
  op_needed_.resize(ops_.size());
}

std::span<const Index> Simulator::inputs(Index op) const {
  const OpFacts& facts = ops_[op];
  return {op_inputs_.data() + facts.inputs_begin, op_inputs_.data() + facts.inputs_end};
}

std::span<const Index> Simulator::outputs(Index op) const {
  const OpFacts& facts = ops_[op];
  return {op_outputs_.data() + facts.outputs_begin, op_outputs_.data() + facts.outputs_end};
}

bool Simulator::live(Index v) const {
  const ValueState& s = state_[v];
  return s.owned || (s.held && !s.away) || s.cached || values_[v].producer < 0;
}

Simulation Simulator::run(std::span<const std::uint8_t> keep) { return run(keep, {}); }

Simulation Simulator::run(std::span<const std::uint8_t> keep, Timeline& timeline) {
  return run(keep, {}, timeline);
}

Simulation Simulator::run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps) {
  return run(keep, sweeps, std::span<const Offload>());
}

Simulation Simulator::run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                          Timeline& timeline) {
  return run(keep, sweeps, {}, timeline);
}

Simulation Simulator::run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                          std::span<const Offload> offloads) {
  prepare(keep, sweeps, offloads);
  return run_events<false>(keep, nullptr);
}

Simulation Simulator::run(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                          std::span<const Offload> offloads, Timeline& timeline) {
  prepare(keep, sweeps, offloads);
  return run_events<true>(keep, &timeline);
}

void Simulator::prepare(std::span<const std::uint8_t> keep, std::span<const Sweep> sweeps,
                        std::span<const Offload> offloads) {
  check(keep, sweeps, offloads);
  sweeps_ = sweeps;
  leaving_.assign(offloads.begin(), offloads.end());
  returning_ = leaving_;
  std::ranges::stable_sort(leaving_, {}, &Offload::leaves_after);
  std::ranges::stable_sort(returning_, {}, &Offload::returns_at);
}

template <bool record>
Simulation Simulator::run_events(std::span<const std::uint8_t> keep, Timeline* timeline) {
  reset();
  timeline_ = timeline;
  if constexpr (record) clear(*timeline);
  for (std::size_t t = 0; t < events_.size(); ++t) {
    event_ = static_cast<Index>(t);
    event_peak_bytes_ = live_bytes_;
    apply(events_[t], keep);
    if (event_peak_bytes_ > result_.peak_bytes) {
      result_.peak_bytes = event_peak_bytes_;
      result_.peak_event = event_;
    }
    if constexpr (record) {
      timeline->live_bytes.push_back(live_bytes_);
      timeline->peak_bytes.push_back(event_peak_bytes_);
    }
  }
  return result_;
}

void Simulator::apply(const Event& event, std::span<const std::uint8_t> keep) {
  switch (event.kind) {
    case EventKind::run_op:
      return run_op(event.id, keep);
    case EventKind::save:
      ++state_[event.id].handles;
      return;
    case EventKind::death:
      return end_ownership(event.id);
    case EventKind::outside:
      touch(live_bytes_ + event.peak_bytes);
      live_bytes_ += event.net_bytes;
      return touch(live_bytes_);
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

void Simulator::reset() {
  std::ranges::fill(state_, ValueState{});
  std::ranges::fill(op_wanted_, 0);
  std::ranges::fill(op_needed_, 0);
  live_bytes_ = 0;
  num_left_ = 0;
  result_ = {};
  in_listed_sweep_ = false;
}

void Simulator::touch(std::int64_t bytes) {
  event_peak_bytes_ = std::max(event_peak_bytes_, bytes);
}

void Simulator::run_op(Index op, std::span<const std::uint8_t> keep) {
  if (ops_[op].in_place) {
    for (const Index w : outputs(op)) {
      if (values_[w].overwrites >= 0) overwrite(values_[w].overwrites);
    }
  }
  touch(live_bytes_ + ops_[op].transient_bytes);
  live_bytes_ += ops_[op].fresh_bytes;
  touch(live_bytes_);
  for (const Index w : outputs(op)) {
    state_[w].owned = true;
    state_[w].held = values_[w].must_keep || (keep[w] != 0 && values_[w].last_version);
  }
  for (; num_left_ < leaving_.size() && leaving_[num_left_].leaves_after <= op; ++num_left_) {
    leave(leaving_[num_left_].value);
  }
}

void Simulator::leave(Index v) {
  state_[v].away = true;
  if (!state_[v].owned) live_bytes_ -= values_[v].bytes;
}

void Simulator::bring_back(Index v) {
  ValueState& s = state_[v];
  s.away = false;
  live_bytes_ += values_[v].bytes;
  touch(live_bytes_);
  if (timeline_ == nullptr) return;
  timeline_->returned_values.push_back(v);
  timeline_->return_events.push_back(event_);
}

void Simulator::bring_back_at(Index target) {
  auto due = std::ranges::lower_bound(returning_, target, {}, &Offload::returns_at);
  for (; due != returning_.end() && due->returns_at == target; ++due) {
    const ValueState& s = state_[due->value];
    if (s.held && s.away && !s.owned) bring_back(due->value);
  }
}

/// The storage of `v` goes over to the next content; a snapshot keeps this one in a clone.
void Simulator::overwrite(Index v) {
  state_[v].owned = false;
  state_[v].held = values_[v].snapshot;
  if (values_[v].snapshot) live_bytes_ += values_[v].bytes;
}

void Simulator::end_ownership(Index v) {
  note_read(v);
  if (!state_[v].owned) return;
  state_[v].owned = false;
  if (!state_[v].held || state_[v].away) live_bytes_ -= values_[v].bytes;
}

void Simulator::seal() {
  for (ValueState& s : state_) s.dropped = !s.held;
  count_wanted();
  for (std::size_t v = 0; v < state_.size(); ++v) {
    if (state_[v].held && state_[v].wanted == 0) let_go(static_cast<Index>(v));
  }
  result_.seal_bytes = live_bytes_;
  if (timeline_ == nullptr) return;
  for (const ValueState& s : state_) timeline_->held.push_back(s.held ? 1 : 0);
}

void Simulator::count_wanted() {
  for (ValueState& s : state_) s.wanted = s.handles;
  for (auto op = static_cast<Index>(ops_.size()) - 1; op >= 0; --op) {
    if (!wants_replay(op)) continue;
    op_wanted_[op] = 1;
    for (const Index u : inputs(op)) ++state_[u].wanted;
  }
}

bool Simulator::wants_replay(Index op) const {
  return std::ranges::any_of(outputs(op),
                             [this](Index w) { return state_[w].dropped && state_[w].wanted > 0; });
}

void Simulator::let_go(Index v) {
  state_[v].held = false;
  if (!state_[v].owned && !state_[v].away) live_bytes_ -= values_[v].bytes;
}

void Simulator::release(Index v) {
  note_read(v);
  ValueState& s = state_[v];
  if (--s.handles == 0 && s.cached && !s.outlasts_handles) uncache(v);
  if (s.wanted > 0) lower_wanted(v);
}

/// What a pass brought back from the host is there still, and goes like what it made again.
void Simulator::end_pass() {
  reads_all_ = true;
  for (std::size_t v = 0; v < state_.size(); ++v) {
    if (state_[v].cached) uncache(static_cast<Index>(v));
  }
  for (const Offload& offload : leaving_) {
    if (state_[offload.value].held && !state_[offload.value].away) leave(offload.value);
  }
}

void Simulator::uncache(Index v) {
  state_[v].cached = false;
  live_bytes_ -= values_[v].bytes;
}

/// Counts one reason to want `first` less and follows the consequences towards the inputs.
void Simulator::lower_wanted(Index first) {
  stack_.assign(1, first);
  while (!stack_.empty()) {
    const Index v = stack_.back();
    stack_.pop_back();
    note_read(v);
    ValueState& s = state_[v];
    if (--s.wanted > 0) continue;
    if (s.held) let_go(v);
    if (s.cached) uncache(v);
    const Index op = values_[v].producer;
    if (!s.dropped || op < 0 || op_wanted_[op] == 0) continue;
    for (const Index w : outputs(op)) note_read(w);
    if (wants_replay(op)) continue;
    op_wanted_[op] = 0;
    for (const Index u : inputs(op)) stack_.push_back(u);
  }
}

std::vector<Sweep> Simulator::defer(std::span<const std::uint8_t> keep,
                                    std::span<const Index> cached_from) {
  prepare(keep, {}, {});
  cached_from_ = cached_from;
  deferring_.clear();
  run_events<false>(keep, nullptr);
  cached_from_ = {};
  return std::exchange(deferring_, {});
}

void Simulator::demand(Index target) {
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

void Simulator::run_listed(const Sweep& sweep) {
  in_listed_sweep_ = true;
  for (const Index v : sweep.cached) state_[v].listed = true;
  replay_closure(sweep.target);
  for (const Index v : sweep.cached) state_[v].listed = false;
  in_listed_sweep_ = false;
}

/// Lists the sweep of `target` if by itself it would leave other values behind than those due.
void Simulator::note_deferring(Index target) {
  if (!find_due(target, cached_from_)) return;
  Sweep sweep{target, due_};
  std::ranges::sort(sweep.cached);
  const auto at = std::ranges::lower_bound(deferring_, target, {}, &Sweep::target);
  const bool known = at != deferring_.end() && at->target == target;
  if (known) *at = std::move(sweep);
  if (!known) deferring_.insert(at, std::move(sweep));
}

/// Finds what a sweep of `target` is to leave behind; false if it does so by itself.
bool Simulator::find_due(Index target, std::span<const Index> from) {
  find_closure(target);
  due_.clear();
  bool lists = false;
  for (const Index op : closure_) {
    op_needed_[op] = 0;
    for (const Index v : outputs(op)) {
      if (v == target || live(v)) continue;
      const ValueState& s = state_[v];
      const bool shared = from[v] < 0 && event_ >= ~from[v] && s.wanted > 0;
      const bool due = shared || (s.handles > 0 && from[v] >= 0 && event_ >= from[v]);
      if (due && values_[v].last_version) due_.push_back(v);
      lists |= shared || (s.handles > 0 && !due);
    }
  }
  return lists;
}

/// Replays what note_deferring() would list, at once.
void Simulator::replay_deferring(Index target) {
  const bool lists = find_due(target, due_from_);
  if (!lists) return replay_closure(target);
  in_listed_sweep_ = true;
  for (const Index v : due_) state_[v].listed = true;
  replay_closure(target);
  for (const Index op : closure_) {
    for (const Index v : outputs(op)) state_[v].listed = false;
  }
  in_listed_sweep_ = false;
}

void Simulator::note_read(Index v) {
  if (is_read_.empty() || is_read_[v] != 0) return;
  is_read_[v] = 1;
  reads_.push_back(v);
}

void Simulator::note_closure() {
  for (const Index op : closure_) {
    for (const Index u : inputs(op)) note_read(u);
    for (const Index w : outputs(op)) note_read(w);
  }
}

const Sweep* Simulator::listed_sweep(Index target) const {
  const auto sweep = std::ranges::lower_bound(sweeps_, target, {}, &Sweep::target);
  return sweep != sweeps_.end() && sweep->target == target ? &*sweep : nullptr;
}

void Simulator::replay_closure(Index target) {
  find_closure(target);
  std::ranges::sort(closure_);
  for (const Index v : away_) {
    if (state_[v].away) bring_back(v);
  }
  for (const Index op : closure_) {
    for (const Index u : inputs(op)) ++state_[u].uses;
  }
  for (const Index op : closure_) replay(op, target);
  if (!is_read_.empty()) note_closure();
  for (const Index op : closure_) {
    op_needed_[op] = 0;
    for (const Index w : outputs(op)) state_[w].made = false;
  }
}

void Simulator::find_closure(Index target) {
  closure_.clear();
  away_.clear();
  stack_.assign(1, target);
  while (!stack_.empty()) {
    const Index v = stack_.back();
    stack_.pop_back();
    if (state_[v].held) {
      away_.push_back(v);
      continue;
    }
    if (values_[v].must_keep) {
      throw std::logic_error("simulate: value " + std::to_string(v) +
                             " cannot be replayed and is gone; GradRecomp bug, please report");
    }
    const Index op = values_[v].producer;
    if (op_needed_[op] != 0) continue;
    op_needed_[op] = 1;
    closure_.push_back(op);
    for (const Index u : inputs(op)) {
      if (!live(u)) stack_.push_back(u);
    }
  }
}

void Simulator::replay(Index op, Index target) {
  const OpFacts& facts = ops_[op];
  const bool joined = facts.joins && joins_in(op);
  if (joined) {
    take_over(op);
  } else {
    if (facts.in_place) prepare_in_place(op);
    touch(live_bytes_ + facts.replay_transient_bytes);
    live_bytes_ += facts.fresh_bytes;
    touch(live_bytes_);
  }
  for (const Index w : outputs(op)) settle_output(w, target);
  for (const Index u : inputs(op)) settle_input(u);
  result_.replay_seconds += joined ? facts.joined_seconds : facts.replay_seconds;
  result_.replay_flops += facts.flops;
  result_.replay_bytes_moved += facts.bytes_moved;
  ++result_.num_replayed_ops;
  if (timeline_ == nullptr) return;
  timeline_->replayed_ops.push_back(op);
  timeline_->replay_events.push_back(event_);
}

/// Whether what the op right before `op` has just made is there for it alone.
bool Simulator::joins_in(Index op) const {
  const ValueState& s = state_[outputs(op - 1).front()];
  return op_needed_[op - 1] != 0 && s.made && !s.cached && s.uses == 1;
}

void Simulator::take_over(Index op) {
  const Index before = outputs(op - 1).front();
  state_[before].made = false;
  live_bytes_ += values_[outputs(op).front()].bytes - values_[before].bytes;
  touch(live_bytes_);
}

/// Gives each in-place output of `op` a storage: a clone, or the temporary it overwrites.
void Simulator::prepare_in_place(Index op) {
  for (const Index w : outputs(op)) {
    const Index u = values_[w].overwrites;
    if (u < 0) continue;
    ValueState& s = state_[u];
    const bool must_survive = !s.made || s.cached || s.uses > 1;
    if (must_survive) live_bytes_ += values_[u].bytes;
    if (!must_survive) s.made = false;
  }
}

void Simulator::settle_output(Index v, Index target) {
  ValueState& s = state_[v];
  const bool duplicate = live(v) || s.held;
  if (!duplicate) cache(v, target);
  s.made = !duplicate && (s.cached || s.uses > 0 || v == target);
  if (!s.made) live_bytes_ -= values_[v].bytes;
}

void Simulator::cache(Index v, Index target) {
  ValueState& s = state_[v];
  s.outlasts_handles = s.listed && s.wanted > 0;
  const bool by_handles = !in_listed_sweep_ || v == target;
  s.cached = s.outlasts_handles || (by_handles && s.handles > 0);
}

void Simulator::settle_input(Index v) {
  ValueState& s = state_[v];
  if (--s.uses > 0 || !s.made || s.cached) return;
  s.made = false;
  live_bytes_ -= values_[v].bytes;
}

Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep) {
  return Simulator(graph).run(keep);
}

Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                    std::span<const Sweep> sweeps, std::span<const Offload> offloads) {
  return Simulator(graph).run(keep, sweeps, offloads);
}

Simulation simulate(const Graph& graph, std::span<const std::uint8_t> keep,
                    std::vector<std::int64_t>& live_bytes_after_event) {
  Timeline timeline;
  const Simulation result = Simulator(graph).run(keep, timeline);
  live_bytes_after_event = std::move(timeline.live_bytes);
  return result;
}

}  // namespace gradrecomp::plan
