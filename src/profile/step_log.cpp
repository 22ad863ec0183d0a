#include "profile/step_log.h"

#include <algorithm>
#include <utility>

#include "plan/graph/demands.h"
#include "profile/device_log.h"
#include "profile/flops.h"
#include "profile/times/equal_ops.h"
#include "tape/aten/polite_lock.h"
#include "tape/own_work.h"
#include "tape/versions.h"

namespace gradrecomp::profile {

using plan::EventKind;
using Place = StepMemory::Place;
using tape::OpId;
using tape::Tape;
using tape::ValueId;

namespace {

Place place(bool in_op) { return in_op ? Place::inside_op : Place::outside; }

}  // namespace

StepLog::StepLog(const std::shared_ptr<const Tape>& tape)
    : tape_(tape), tape_address_(tape.get()) {}

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

std::int32_t StepLog::stage(const std::string& name) {
  const auto [entry, added] = stages_.try_emplace(name, static_cast<std::int32_t>(stages_.size()));
  if (added) graph_.stages.push_back({name});
  return entry->second;
}

void StepLog::mark(EventKind kind, ValueId id) {
  memory_.append_outside(graph_.events);
  graph_.events.push_back({kind, id, 0, 0});
}

void StepLog::op_begins(const Tape& tape) {
  tape::touch(&tape);  // a backward pass of another step may have touched its own since
  look_for_deaths(tape);
  memory_.append_outside(graph_.events);
  memory_.op_begins();
  in_op_ = true;
  stream_times_.op_begins();
  op_start_ = Clock::now();
}

void StepLog::op_ends(const Tape& tape, OpId first) {
  const double seconds = std::chrono::duration<double>(Clock::now() - op_start_).count();
  note_device(tape, first);
  read_device_log();
  in_op_ = false;
  const bool made_values = first >= 0;
  const auto end = static_cast<OpId>(tape.ops().size());
  const OpId begin = made_values ? first : end;
  for (OpId id = begin; id < end; ++id) add_op(tape, id, seconds);
  for (OpId id = begin; id < end; ++id) adopt(tape, id, Place::inside_op);
  memory_.op_ends(made_values);
  for (const ValueId value : died_in_op_) mark(EventKind::death, value);
  died_in_op_.clear();
}

void StepLog::took_in(const Tape& tape, OpId op) {
  read_device_log();
  note_device(tape, op);
  memory_.op_begins();
  adopt(tape, op, Place::outside);  // where their memory was counted
  add_op(tape, op, 0);
}

// Backward of what runs on a device runs on a thread of autograd's, which takes host memory too.
void StepLog::note_device(const Tape& tape, OpId op) {
  if (op < 0 || is_on_device_ || !tape.ops()[op].stream()) return;
  is_on_device_ = true;
  device_log_->follow_host();
}

void StepLog::add_op(const Tape& tape, OpId id, double seconds) {
  const tape::Op& recorded = tape.ops()[id];
  plan::Op op;
  op.name = recorded.name();
  op.stage = recorded.stage;
  op.is_part = recorded.substitute != nullptr;
  op.forward_seconds = op.is_part ? 0 : seconds;  // those of a part are in those of its call
  op.replay_seconds = seconds;
  stream_times_.add_op(recorded);
  const Flops flops = flops_of(recorded, tape);
  op.flops = flops.forward;
  graph_.step_flops += flops.forward + flops.backward;
  op.bytes_moved = bytes_moved_by(recorded, tape);
  if (recorded.rng != nullptr) drawing_ops_.push_back(id);
  memory_.add_op();
  graph_.ops.push_back(std::move(op));
  mark(EventKind::run_op, id);
}

void StepLog::adopt(const Tape& tape, OpId id, Place place) {
  const tape::Op& op = tape.ops()[id];
  dead_.resize(tape.values().size(), 0);  // before: what this looks at may die of it
  memory_.adopt(tape, op, place);
  for (const tape::Result& result : op.results) {
    const tape::Value& value = tape.values()[result.value];
    if (value.external) continue;
    watched_.push_back({result.value, value.owner._unsafe_get_target()});
    if (result.read >= 0 && value.overwrites < 0) note_replaced(op.reads[result.read].value);
  }
}

// The memory that a storage had before it got another is gone, also where that was none.
void StepLog::note_replaced(ValueId id) {
  if (std::exchange(dead_[id], 1) == 0) died_in_op_.push_back(id);
}

// The program may hold thousands, as a recurrent network does that collects its outputs. Of one
// that something holds beside the tape, one count says that. What has been overwritten is of no
// interest any more, and sorted out now and then.
void StepLog::look_for_deaths(const Tape& tape) {
  constexpr std::int64_t kLooksToSort = 64;
  read_device_log();
  const bool sorts = ++num_looks_ % kLooksToSort == 0;
  std::erase_if(watched_, [&](const Watched& watched) {
    if (!sorts && c10::raw::intrusive_ptr::use_count(watched.memory) > 1) return false;
    const ValueId id = watched.value;
    if (dead_[id] || tape.values()[id].overwritten_by >= 0) return true;
    if (!tape.abandoned(id)) return false;
    dead_[id] = 1;
    mark(EventKind::death, id);
    return true;
  });
}

void StepLog::saved(const Tape& /*tape*/, ValueId value, c10::ScalarType type) {
  read_device_log();
  saved_types_.push_back({value, type});
  mark(EventKind::save, value);
}

void StepLog::sealed(const Tape& /*tape*/) {
  read_device_log();
  mark(EventKind::seal, -1);
  sealed_ = true;
}

void StepLog::demanded(const Tape& tape, ValueId value) {
  const auto lock = tape::lock_politely(mutex_);
  // Whoever asks runs backward, on the CPU the thread that called it.
  if (sealed_ && !is_on_device_) add_allocation_sink(weak_from_this());
  add_backward_time();
  look_for_deaths(tape);
  mark(EventKind::demand, value);
}

void StepLog::replay_begins(const Tape& /*tape*/) {
  const auto lock = tape::lock_politely(mutex_);
  stream_times_.replay_begins();
}

void StepLog::replay_ends(const Tape& /*tape*/) {
  const auto lock = tape::lock_politely(mutex_);
  stream_times_.replay_ends();
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
  read_device_log();  // what other threads did to the host before is noted before
  // Values that the tape holds die without a release of memory, so their death is seen only by
  // looking.
  const bool may_hold_values = !is_on_device_ || memory_.has_host_values();
  if (!in_op_ && tape && may_hold_values) look_for_deaths(*tape);
  memory_.add_block(c10::kCPU, pointer, static_cast<std::int64_t>(bytes), place(in_op_));
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
  drop_block(c10::kCPU, pointer, tape::in_own_work(), in_op_);
}

void StepLog::read_device_log() {
  const auto lock = tape::lock_politely(mutex_);
  if (stopped_) return;
  for (const DeviceReport& report : device_log_->take()) {
    const bool in_op = in_op_ && report.by_recorder;
    if (report.freed) {
      drop_block(report.device, report.pointer, report.own_work, in_op);
    } else if (!report.own_work) {
      memory_.add_block(report.device, report.pointer, report.bytes, place(in_op));
    }
  }
}

void StepLog::drop_block(c10::Device device, const void* pointer, bool own_work, bool in_op) {
  const ValueId value = memory_.drop_block(device, pointer, place(in_op));
  if (value < 0 || own_work || dead_[value]) return;
  dead_[value] = 1;
  if (in_op) {
    died_in_op_.push_back(value);
  } else {
    mark(EventKind::death, value);
  }
}

void StepLog::add_replay_times(OpId first, const std::vector<tape::ReplayTimes>& times) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].seconds <= 0) continue;
    graph_.ops[first + i].replay_seconds = times[i].seconds;
    graph_.ops[first + i].joined_seconds = times[i].joined_seconds;
    stream_times_.replay_is_timed(first + i);
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
  stream_times_.pass_begins();
  replay_seconds_before_backward_ = tape.counts().replay_seconds;
}

void StepLog::backward_ends(const Tape& tape) {
  const auto lock = tape::lock_politely(mutex_);
  look_for_deaths(tape);
  memory_.append_outside(graph_.events);
  in_pass_ = false;
  pass_end_ = std::ssize(graph_.events);
  time_pass(tape);
}

// A device may have streams that nothing times.
bool StepLog::has_stream_times() const { return is_on_device_ && stream_times_.has_passes(); }

// Time between passes does not belong to the step.
void StepLog::time_pass(const Tape& tape) {
  add_backward_time();
  last_mark_ = Clock::time_point();
  backward_seconds_ -= tape.counts().replay_seconds - replay_seconds_before_backward_;
  backward_seconds_ = std::max(backward_seconds_, 0.0);
  replay_seconds_before_backward_ = tape.counts().replay_seconds;
  if (is_on_device_) stream_times_.pass_ends();
}

plan::Graph StepLog::graph_so_far(const Tape& tape, std::uint64_t signature) {
  const auto lock = tape::lock_politely(mutex_);
  plan::Graph logged = graph_;
  if (pass_end_ >= 0) graph_.events.resize(static_cast<std::size_t>(pass_end_));
  stream_times_.assign_seconds(graph_.ops);
  graph_.signature = signature;
  if (!has_stages()) graph_.stages.push_back({kUnnamedStage});
  resolve_versions(tape);
  add_ops(tape);
  add_values(tape);
  mark_forms(tape, saved_types_, drawing_ops_, graph_);
  average_seconds_of_equal_ops(graph_);
  graph_.step_seconds = has_stream_times() ? stream_times_.backward_seconds() : backward_seconds_;
  for (const plan::Op& op : graph_.ops) graph_.step_seconds += op.is_part ? 0 : op.replay_seconds;
  memory_.assign_devices(graph_, tape, is_on_device_);
  return std::exchange(graph_, std::move(logged));
}

void StepLog::stop() {
  const auto lock = tape::lock_politely(mutex_);
  stopped_ = true;
  device_log_->fall_silent();
  device_log_.reset();
}

// A handle means the last content of its storage, and so do the events. What died is memory, and
// what is made in its storage after that has another.
void StepLog::resolve_versions(const Tape& tape) {
  plan::Index num_run = 0;
  for (plan::Event& event : graph_.events) {
    if (event.kind == EventKind::run_op) {
      ++num_run;
    } else if (event.kind == EventKind::death) {
      event.id = died(tape, event.id, num_run);
    } else if (event.id >= 0) {
      event.id = tape::last_version(tape, event.id);
    }
  }
}

ValueId StepLog::died(const Tape& tape, ValueId value, plan::Index num_run) {
  ValueId next = tape.values()[value].overwritten_by;
  while (tape::takes_over(tape, next, value) && tape.values()[next].producer < num_run) {
    value = std::exchange(next, tape.values()[next].overwritten_by);
  }
  if (tape::takes_over(tape, next, value)) in_new_memory_.insert(next);
  return value;
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
    value.overwrites = in_new_memory_.count(id) > 0 ? -1 : recorded.overwrites;
    value.overwritten_by = recorded.overwritten_by;
    // External memory costs the step nothing, but a snapshot of it does.
    const bool is_taken_over = tape::takes_over(tape, recorded.overwritten_by, id) &&
                               in_new_memory_.count(recorded.overwritten_by) == 0;
    const bool overwritten = value.overwrites >= 0 || is_taken_over;
    value.bytes = recorded.external && !overwritten ? 0 : recorded.bytes;
    value.must_keep = recorded.must_keep && !recorded.lost;
    value.snapshot = recorded.snapshot;
  }
  const std::vector<bool> saved = plan::saved_values(graph_);
  for (std::size_t v = 0; v < saved.size(); ++v) graph_.values[v].saved = saved[v];
}

}  // namespace gradrecomp::profile
