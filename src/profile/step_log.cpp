#include "profile/step_log.h"

#include <algorithm>
#include <utility>

#include "profile/device_log.h"
#include "profile/flops.h"
#include "profile/stream_clock.h"
#include "tape/aten/polite_lock.h"

namespace gradrecomp::profile {

using plan::EventKind;
using tape::OpId;
using tape::Tape;
using tape::ValueId;

StepLog::StepLog(const std::shared_ptr<const Tape>& tape)
    : tape_(tape), tape_address_(tape.get()), stream_clock_(std::make_unique<StreamClock>()) {}
StepLog::~StepLog() {
  if (device_log_) device_log_->fall_silent();
}

std::shared_ptr<StepLog> StepLog::begin(const std::shared_ptr<const Tape>& tape) {
  std::shared_ptr<StepLog> log(new StepLog(tape));
  log->device_log_ = DeviceLog::begin(
      tape.get(), [log = log.get()](bool by_recorder) { log->device_allocates(by_recorder); });
  add_allocation_sink(log);
  return log;
}

// Several steps may be unfinished on one thread, each with a log or without.
bool StepLog::is_of_another_step() const {
  const Tape* last = tape::touched_last();
  return last != nullptr && last != tape_address_;
}

void StepLog::Span::add(std::int64_t bytes) {
  net_bytes += bytes;
  peak_bytes = std::max(peak_bytes, net_bytes);
}

std::int32_t StepLog::stage(const std::string& name) {
  const auto [entry, added] = stages_.try_emplace(name, static_cast<std::int32_t>(stages_.size()));
  if (added) graph_.stages.push_back({name});
  return entry->second;
}

namespace {

bool takes_over(const Tape& tape, ValueId next, ValueId value) {
  return next >= 0 && tape.values()[next].overwrites == value;
}

/// The last value made in the memory of `value`.
ValueId last_in_memory(const Tape& tape, ValueId value) {
  for (ValueId next = tape.values()[value].overwritten_by; takes_over(tape, next, value);
       next = tape.values()[value].overwritten_by) {
    value = next;
  }
  return value;
}

}  // namespace

void StepLog::flush() {
  for (std::size_t m = 0; m < memories_.size(); ++m) {
    const Span outside = std::exchange(memories_[m].outside, {});
    if (outside.net_bytes == 0 && outside.peak_bytes == 0) continue;
    graph_.events.push_back({EventKind::outside, -1, outside.net_bytes, outside.peak_bytes,
                             static_cast<plan::Index>(m)});
  }
}

void StepLog::mark(EventKind kind, ValueId id) {
  flush();
  graph_.events.push_back({kind, id, 0, 0});
}

void StepLog::op_begins(const Tape& tape) {
  tape::touch(&tape);  // what graph of another step died since did the same
  look_for_deaths(tape);
  flush();
  for (Memory& memory : memories_) memory.inside_op = {};
  in_op_ = true;
  op_start_on_stream_ = stream_clock_->now();
  op_start_ = Clock::now();
}

void StepLog::op_ends(const Tape& tape, OpId first) {
  const double seconds = std::chrono::duration<double>(Clock::now() - op_start_).count();
  note_device(tape, first);
  read_device_log();
  in_op_ = false;
  if (first < 0) {
    for (Memory& memory : memories_) memory.outside = memory.inside_op;
  } else {
    const auto end = static_cast<OpId>(tape.ops().size());
    for (OpId id = first; id < end; ++id) add_op(tape, id, seconds);
    for (OpId id = first; id < end; ++id) adopt(tape, tape.ops()[id], &Memory::inside_op);
    for (Memory& memory : memories_) memory.outside.add(memory.inside_op.net_bytes);
  }
  for (const ValueId value : died_in_op_) mark(EventKind::death, value);
  died_in_op_.clear();
}

void StepLog::took_in(const Tape& tape, OpId op) {
  read_device_log();
  note_device(tape, op);
  for (Memory& memory : memories_) memory.inside_op = {};
  adopt(tape, tape.ops()[op], &Memory::outside);  // where their memory was counted
  add_op(tape, op, 0);
}

// Backward of what runs on a device runs on a thread of autograd's, which takes host memory too.
void StepLog::note_device(const Tape& tape, OpId op) {
  if (op < 0 || is_on_device_ || !tape.ops()[op].stream) return;
  is_on_device_ = true;
  device_log_->follow_host();
}

plan::Index StepLog::memory_of(c10::Device device) {
  const auto known = std::ranges::find(memories_, device, &Memory::device);
  const auto place = static_cast<plan::Index>(known - memories_.begin());
  if (known == memories_.end()) memories_.push_back({device});
  return place;
}

void StepLog::add_op(const Tape& tape, OpId id, double seconds) {
  const tape::Op& recorded = tape.ops()[id];
  plan::Op op;
  op.name = recorded.handle.schema().name();
  op.stage = recorded.stage;
  op.is_part = recorded.substitute != nullptr;
  op.forward_seconds = op.is_part ? 0 : seconds;  // those of a part are in those of its call
  op.replay_seconds = seconds;
  on_stream_.push_back(
      recorded.stream ? OnStream{op_start_on_stream_, stream_clock_->now_after(op_start_on_stream_)}
                      : OnStream{});
  const Flops flops = flops_of(recorded, tape);
  op.flops = flops.forward;
  graph_.step_flops += flops.forward + flops.backward;
  op.bytes_moved = bytes_moved_by(recorded, tape);
  auto& transient_bytes = transient_bytes_.emplace_back();
  for (const Memory& memory : memories_) transient_bytes.push_back(memory.inside_op.peak_bytes);
  graph_.ops.push_back(std::move(op));
  mark(EventKind::run_op, id);
}

// Blocks that results live in are the simulator's; what else the op left behind is outside memory.
void StepLog::adopt(const Tape& tape, const tape::Op& op, Span Memory::*counted) {
  dead_.resize(tape.values().size(), 0);
  value_memories_.resize(tape.values().size(), -1);
  for (const tape::Result& result : op.results) {
    const tape::Value& value = tape.values()[result.value];
    const auto storage = value.owner.lock();
    if (storage) value_memories_[result.value] = memory_of(storage->device());
    if (value.external) continue;
    watched_.push_back(result.value);
    if (!storage) continue;
    Memory& memory = memories_[value_memories_[result.value]];
    has_host_values_ |= memory.device.is_cpu();
    const auto block = memory.blocks.find(storage->data());
    if (block == memory.blocks.end()) continue;
    if (block->second.value < 0) (memory.*counted).net_bytes -= block->second.bytes;
    block->second.value = result.value;
  }
}

void StepLog::look_for_deaths(const Tape& tape) {
  read_device_log();
  std::erase_if(watched_, [&](ValueId id) {
    if (dead_[id] || tape.values()[id].overwritten_by >= 0) return true;
    if (!tape.abandoned(id)) return false;
    dead_[id] = 1;
    mark(EventKind::death, id);
    return true;
  });
}

void StepLog::saved(const Tape& /*tape*/, ValueId value) {
  read_device_log();
  mark(EventKind::save, value);
}

void StepLog::sealed(const Tape& /*tape*/) {
  read_device_log();
  mark(EventKind::seal, -1);
  sealed_ = true;
}

void StepLog::demanded(const Tape& tape, ValueId value) {
  const auto lock = tape::lock_politely(mutex_);
  add_backward_time();
  look_for_deaths(tape);
  mark(EventKind::demand, value);
}

void StepLog::replay_begins(const Tape& /*tape*/) {
  const auto lock = tape::lock_politely(mutex_);
  replays_on_stream_.push_back({.begin = stream_clock_->now()});
}

void StepLog::replay_ends(const Tape& /*tape*/) {
  const auto lock = tape::lock_politely(mutex_);
  if (!replays_on_stream_.empty()) {
    OnStream& last = replays_on_stream_.back();
    last.end = stream_clock_->now_after(last.begin);
  }
}

void StepLog::releases(const Tape& tape, ValueId value) {
  const auto lock = tape::lock_politely(mutex_);
  add_backward_time();
  look_for_deaths(tape);
  mark(EventKind::release, value);
}

/// Adds what has passed since the last mark, if it was this step's.
void StepLog::add_backward_time() {
  const auto now = Clock::now();
  const bool begun = last_mark_ != Clock::time_point();
  if (begun && !is_of_another_step()) {
    backward_seconds_ += std::chrono::duration<double>(now - last_mark_).count();
  }
  if (begun) last_mark_ = now;
}

void StepLog::allocated(const void* pointer, std::size_t bytes) {
  if (tape::in_own_work() || is_of_another_step()) return;
  const auto tape = tape_.lock();
  // The tape's lock first, as callers from the tape hold it.
  const auto backward_waits = tape ? tape->lock() : std::unique_lock<std::recursive_mutex>();
  const auto lock = tape::lock_politely(mutex_);
  if (stopped_) return;
  read_device_log();  // what other threads did to the host before comes before
  // Values that the tape holds die without a release of memory, so their death is seen only by
  // looking.
  const bool may_hold_values = !is_on_device_ || has_host_values_;
  if (!in_op_ && tape && may_hold_values) look_for_deaths(*tape);
  add_block(memories_.front(), pointer, static_cast<std::int64_t>(bytes), in_op_);
}

// Called under the lock of a device's allocator: see Note [ Reports of devices ].
void StepLog::device_allocates(bool by_recorder) {
  if (!by_recorder && !sealed_) return;  // the region's own thread is at the tape, without its lock
  const auto tape = tape_.lock();
  const auto backward_waits = tape ? tape->try_lock() : std::unique_lock<std::recursive_mutex>();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (backward_waits && lock && !stopped_ && !in_op_) look_for_deaths(*tape);
}

void StepLog::freed(const void* pointer, std::size_t /*bytes*/) {
  const auto lock = tape::lock_politely(mutex_);
  if (stopped_) return;
  read_device_log();
  drop_block(memories_.front(), pointer, tape::in_own_work(), in_op_);
}

void StepLog::read_device_log() {
  const auto lock = tape::lock_politely(mutex_);
  if (stopped_) return;
  for (const DeviceReport& report : device_log_->take()) {
    const bool in_op = in_op_ && report.by_recorder;
    Memory& memory = memories_[memory_of(report.device)];
    if (report.freed) {
      drop_block(memory, report.pointer, report.own_work, in_op);
    } else if (!report.own_work) {
      add_block(memory, report.pointer, report.bytes, in_op);
    }
  }
}

void StepLog::add_block(Memory& memory, const void* pointer, std::int64_t bytes, bool in_op) {
  memory.blocks[pointer] = {bytes, -1};
  (in_op ? memory.inside_op : memory.outside).add(bytes);
}

void StepLog::drop_block(Memory& memory, const void* pointer, bool own_work, bool in_op) {
  const auto block = memory.blocks.find(pointer);
  if (block == memory.blocks.end()) return;  // older than the step, or made by a replay
  const auto [size, value] = block->second;
  memory.blocks.erase(block);
  if (value < 0) {
    (in_op ? memory.inside_op : memory.outside).add(-size);
  } else if (!own_work && !dead_[value]) {
    dead_[value] = 1;
    if (in_op) {
      died_in_op_.push_back(value);
    } else {
      mark(EventKind::death, value);
    }
  }
}

void StepLog::add_replay_times(OpId first, const std::vector<tape::ReplayTimes>& times) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].seconds <= 0) continue;
    graph_.ops[first + i].replay_seconds = times[i].seconds;
    graph_.ops[first + i].joined_seconds = times[i].joined_seconds;
    on_stream_[first + i].is_replay_timed = true;
  }
}

void StepLog::backward_begins(const Tape& tape) {
  const auto lock = tape::lock_politely(mutex_);
  if (std::exchange(in_pass_, true)) return;  // another pass asks, inside it or beside it
  if (pass_end_ >= 0) {
    graph_.events.insert(graph_.events.begin() + pass_end_, {EventKind::pass_end, -1, 0, 0});
    pass_end_ = -1;
  }
  last_mark_ = Clock::now();
  backward_on_stream_.begin = stream_clock_->now();
  replays_on_stream_.clear();
  replay_seconds_before_backward_ = tape.counts().replay_seconds;
}

void StepLog::backward_ends(const Tape& tape) {
  const auto lock = tape::lock_politely(mutex_);
  look_for_deaths(tape);
  flush();
  in_pass_ = false;
  pass_end_ = std::ssize(graph_.events);
  time_pass(tape);
}

// A device may have streams that nothing times.
bool StepLog::has_stream_times() const { return is_on_device_ && backward_on_stream_.end >= 0; }

// Time between passes does not belong to the step.
void StepLog::time_pass(const Tape& tape) {
  add_backward_time();
  last_mark_ = Clock::time_point();
  backward_seconds_ -= tape.counts().replay_seconds - replay_seconds_before_backward_;
  backward_seconds_ = std::max(backward_seconds_, 0.0);
  replay_seconds_before_backward_ = tape.counts().replay_seconds;
  backward_on_stream_.end = stream_clock_->now_after(backward_on_stream_.begin);
  if (!has_stream_times()) return;
  backward_seconds_on_streams_ += seconds_on_stream(backward_on_stream_);
  backward_seconds_on_streams_ -= replay_seconds_on_stream();
}

plan::Graph StepLog::graph_so_far(const Tape& tape, std::uint64_t signature) {
  const auto lock = tape::lock_politely(mutex_);
  plan::Graph logged = graph_;
  if (pass_end_ >= 0) graph_.events.resize(static_cast<std::size_t>(pass_end_));
  time_ops_on_streams();
  graph_.signature = signature;
  graph_.step_seconds = has_stream_times() ? backward_seconds_on_streams_ : backward_seconds_;
  for (const plan::Op& op : graph_.ops) graph_.step_seconds += op.is_part ? 0 : op.replay_seconds;
  if (!has_stages()) graph_.stages.push_back({kUnnamedStage});
  resolve_versions(tape);
  add_ops(tape);
  add_values(tape);
  sort_by_device();
  return std::exchange(graph_, std::move(logged));
}

void StepLog::stop() {
  const auto lock = tape::lock_politely(mutex_);
  stopped_ = true;
  device_log_->fall_silent();
  device_log_.reset();
}

// Waits for the device.
void StepLog::time_ops_on_streams() {
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    const OnStream& span = on_stream_[i];
    if (span.end < 0) continue;
    plan::Op& op = graph_.ops[i];
    const double seconds = seconds_on_stream(span);
    if (!op.is_part) op.forward_seconds = seconds;
    if (!span.is_replay_timed) op.replay_seconds = seconds;
  }
}

double StepLog::seconds_on_stream(const OnStream& span) {
  return stream_clock_->seconds_between(span.begin, span.end);
}

double StepLog::replay_seconds_on_stream() {
  double seconds = 0;
  for (const OnStream& replay : replays_on_stream_) seconds += seconds_on_stream(replay);
  return seconds;
}

// A handle means the last content of its storage, and so do the events. What died is memory, of
// which a storage that was resized has had several.
void StepLog::resolve_versions(const Tape& tape) {
  for (plan::Event& event : graph_.events) {
    if (event.kind == EventKind::run_op || event.id < 0) continue;
    event.id = event.kind == EventKind::death ? last_in_memory(tape, event.id)
                                              : tape.last_version(event.id);
  }
}

void StepLog::add_ops(const Tape& tape) {
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    const tape::Op& recorded = tape.ops()[i];
    plan::Op& op = graph_.ops[i];
    tape::for_each_input(recorded, [&](ValueId input) { op.inputs.push_back(input); });
    for (const tape::Result& result : recorded.results) {
      op.outputs.push_back(result.value);
    }
    op.by_kernel = recorded.has_kernel();
    op.joins = recorded.method.joins;
    op.joined_seconds = op.joins ? std::min(op.joined_seconds, op.replay_seconds) : 0;
  }
}

void StepLog::add_values(const Tape& tape) {
  for (ValueId id = 0; id < static_cast<ValueId>(tape.values().size()); ++id) {
    const tape::Value& recorded = tape.values()[id];
    plan::Value& value = graph_.values.emplace_back();
    value.producer = recorded.producer;
    value.overwrites = recorded.overwrites;
    value.overwritten_by = recorded.overwritten_by;
    // External memory costs the step nothing, but a snapshot of it does.
    const bool overwritten = value.overwrites >= 0 || takes_over(tape, recorded.overwritten_by, id);
    value.bytes = recorded.external && !overwritten ? 0 : recorded.bytes;
    value.must_keep = recorded.must_keep && !recorded.lost;
    value.snapshot = recorded.snapshot;
    value.device = memory_of_value(tape, id);
  }
  for (const plan::Event& event : graph_.events) {
    if (event.kind == EventKind::save) graph_.values[event.id].saved = true;
  }
}

// Values that overwrite each other share memory, so where one of them is known to be, all are.
plan::Index StepLog::memory_of_value(const Tape& tape, ValueId value) const {
  for (ValueId id = last_in_memory(tape, value); id >= 0; id = tape.values()[id].overwrites) {
    const auto place = static_cast<std::size_t>(id);
    const bool is_known = place < value_memories_.size() && value_memories_[place] >= 0;
    if (is_known) return value_memories_[place];
  }
  return 0;
}

// The accelerators, by the bytes that autograd saves there, before the host.
std::vector<plan::Index> StepLog::memories_by_rank() const {
  std::vector<std::int64_t> made(memories_.size(), 0);
  std::vector<std::int64_t> saved(memories_.size(), 0);
  for (const plan::Value& value : graph_.values) {
    made[value.device] += value.bytes;
    saved[value.device] += value.saved ? value.bytes : 0;
  }
  std::vector<plan::Index> ranked;
  for (std::size_t m = 0; m < memories_.size(); ++m) {
    if (made[m] > 0) ranked.push_back(static_cast<plan::Index>(m));
  }
  // Where nothing takes memory, a plan has none to save on any device.
  if (ranked.empty()) ranked.push_back(is_on_device_ && memories_.size() > 1 ? 1 : 0);
  std::ranges::stable_sort(ranked, [&](plan::Index a, plan::Index b) {
    const bool a_is_host = memories_[a].device.is_cpu();
    const bool b_is_host = memories_[b].device.is_cpu();
    return a_is_host != b_is_host ? b_is_host : saved[a] > saved[b];
  });
  return ranked;
}

/// Leaves out memory of devices on which no op made anything, and ranks the others.
void StepLog::sort_by_device() {
  const auto ranked = memories_by_rank();
  std::vector<plan::Index> rank(memories_.size(), -1);
  for (std::size_t d = 0; d < ranked.size(); ++d) rank[ranked[d]] = static_cast<plan::Index>(d);
  for (plan::Value& value : graph_.values) value.device = std::max(rank[value.device], 0);
  std::erase_if(graph_.events, [&](const plan::Event& event) {
    return rank[event.device] < 0 && event.kind == EventKind::outside;
  });
  for (plan::Event& event : graph_.events) {
    if (event.kind == EventKind::outside) event.device = rank[event.device];
  }
  add_transient_bytes(ranked);
  if (ranked.size() == 1) return;
  for (const plan::Index m : ranked) graph_.devices.push_back(memories_[m].device.str());
}

void StepLog::add_transient_bytes(const std::vector<plan::Index>& ranked) {
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    auto& bytes = transient_bytes_[i];
    bytes.resize(memories_.size(), 0);  // some were seen only later
    plan::Op& op = graph_.ops[i];
    op.transient_bytes = bytes[ranked.front()];
    for (std::size_t d = 1; d < ranked.size(); ++d) {
      op.further_transient_bytes.push_back(bytes[ranked[d]]);
    }
  }
}

}  // namespace gradrecomp::profile
