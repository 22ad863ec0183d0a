#include "tape/tape.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <utility>

#include "tape/aten/lent_memory.h"
#include "tape/aten/polite_lock.h"
#include "tape/aten/stream_scope.h"
#include "tape/contents.h"
#include "tape/host_memory/host_copy.h"
#include "tape/observer.h"
#include "tape/own_work.h"
#include "tape/streams.h"

// Note [ What the program holds ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// What autograd has saved, a node reads as it is when backward comes to it. While the program holds
// that memory, too, a handle gives it out, whatever the plan says. But the program may write to it
// past its version counter, as by x.data().mul_(), and then let go: plain training still sees that
// write, and what a replay makes again does not show it. So the tape holds on in the program's
// place. That takes no memory which the program has not held when the region ended, and for
// replays, plans and peaks it is as if the program had not let go.
//
// Not so where the step was opened and closed in the midst of a function: there all its variables
// are still alive, and would stay.

namespace gradrecomp::tape {
namespace {

void expect_on_device(Tape& tape, const Op& op, const Read& read) {
  const auto storage = tape.live_storage(read.value);
  if (!storage || !DeviceContents::can_look_at(storage)) return;
  const bool has_stream = op.stream() && op.stream()->device() == storage.device();
  const c10::Stream stream = has_stream ? *op.stream() : current_stream_of(storage.device());
  if (home_of(tape, read.value) != stream) note_use(storage, stream);
  tape.contents().on_devices().expect(read.value, storage, extent_read(op, read), stream);
}

/// Whether each write by an operator raises a version that is compared. Nobody counts those to what
/// inference mode made. And a part that is cut out of a memory, as detach() leaves it, counts with
/// tensors that may show more of it than any that has been read.
bool counts_all_writes(const Value& value) {
  if (!value.version_counter.enabled()) return false;
  if (!value.rare || !value.rare->own) return true;
  const auto shows_all = [&](const Followed& by) { return covers(by.shown, {0, value.bytes}); };
  return shows_all(*value.rare->own) && std::ranges::all_of(value.rare->aliases, shows_all);
}

}  // namespace

Tape::Tape() : contents_(std::make_unique<Contents>()) {}
Tape::~Tape() = default;

const DispatchState* Tape::keep(const DispatchState& state) {
  dispatch_states_.push_back(std::make_unique<const DispatchState>(state));
  return dispatch_states_.back().get();
}

const PackedForm* Tape::keep(std::shared_ptr<const PackedForm> form) {
  packed_forms_.push_back(std::move(form));
  return packed_forms_.back().get();
}

/// A step uses few.
const c10::Stream* Tape::keep(const c10::Stream& stream) {
  const auto known = std::ranges::find(streams_, stream);
  return known != streams_.end() ? &*known : &streams_.emplace_back(stream);
}

// Note [ Locks and the interpreter ] says why politely.
std::unique_lock<std::recursive_mutex> Tape::lock() const { return lock_politely(mutex_); }

std::unique_lock<std::recursive_mutex> Tape::try_lock() const {
  return std::unique_lock(mutex_, std::try_to_lock);
}

ValueId Tape::find(const c10::StorageImpl* storage) const {
  if (storage == last_found_.first && storage != nullptr) return last_found_.second;
  const auto entry = by_storage_.find(storage);
  if (entry == by_storage_.end()) return -1;
  last_found_ = *entry;
  return entry->second;
}

bool Tape::abandoned(ValueId id) const {
  const Value& value = values_[id];
  const std::size_t own = value.storage ? 1 : 0;
  return value.owner.use_count() <= own;
}

c10::Storage Tape::live_storage(ValueId id) const {
  const Value& value = values_[id];
  if (value.hold == Hold::fetched) {
    const TimedWork timed(backward_.timer.get(), DeviceWork::arrival);
    value.copy()->arrive();
  }
  if (value.storage) return value.storage;
  if (value.overwritten_by >= 0 || value.stale) return {};
  auto storage = value.owner.lock();
  if (!storage) return {};
  return is_modified(id) ? c10::Storage() : c10::Storage(std::move(storage));
}

c10::Storage Tape::original_of(ValueId id) const {
  if (values_[id].overwritten_by >= 0) return {};
  auto storage = values_[id].owner.lock();
  return storage ? c10::Storage(std::move(storage)) : c10::Storage();
}

bool Tape::is_modified(ValueId id) const {
  const Value& value = values_[id];
  if (!value.version_counter.enabled()) return false;
  const std::uint32_t version = value.version();
  if (sealed_) return version != value.sealed_version;
  const auto due = static_cast<std::uint32_t>(value.num_due_bumps);
  return version > value.seen_version + due && !is_as_printed(id);
}

bool Tape::is_modified(ValueId id, Extent read) const {
  return is_modified(id) && (!sealed_ || values_[id].was_written_in(read));
}

bool Tape::is_made_blindly(const Value& value) const {
  return value.producer >= 0 && std::ranges::any_of(ops_[value.producer].reads, &Read::blind);
}

bool Tape::may_vanish(ValueId id, const Geometry& shown, bool reads_beyond) const {
  const Value& value = values_[id];
  if (!value.lent || value.snapshot) return false;
  if (!value.rare || !value.rare->lent_parts) return true;
  const LentParts& parts = *value.rare->lent_parts;
  return reads_beyond ? !parts.shows(Extent{0, value.bytes}) : !parts.shows(shown);
}

void Tape::print(ValueId id, const Geometry& geometry, Guard guard) {
  const auto storage = live_storage(id);
  if (!storage || !Print::can_look_at(storage)) return;
  contents_->print(id, storage, geometry, guard == Guard::whole ? Look::whole : Look::sampled);
  values_[id].has_print = true;
}

void Tape::print_after_write(ValueId id, ValueId before, const Geometry& written) {
  const auto storage = live_storage(id);
  if (!storage || !Print::can_look_at(storage)) return;
  contents_->print_after_write(id, before, storage, written);
  values_[before].has_print = false;
  values_[id].has_print = true;
}

void Tape::print_shown(ValueId id, const Geometry& shown, bool reads_beyond) {
  const bool has_one = values_[id].has_print;
  if (guard_ == Guard::off) return;
  const bool is_whole = guard_ == Guard::whole || !counts_all_writes(values_[id]);
  const Look look = is_whole ? Look::whole : Look::sampled;
  if (has_one && contents_->knows(id, shown, reads_beyond, look)) return;
  const auto storage = live_storage(id);
  if (!storage || !Print::can_look_at(storage)) return;
  // Of memory that LibTorch did not allocate no more may be there than what is read.
  const auto& memory = *storage.unsafeGetStorageImpl();
  const bool may_have_gaps = is_lent(memory) || is_mapped(memory);
  if (may_have_gaps && reads_beyond) return print_shown(id, shown, false);
  contents_->print_shown(id, storage, {shown, reads_beyond, may_have_gaps}, look);
  values_[id].has_print = true;
}

// Functions of the program tell autograd of writes that have been recorded, too.
bool Tape::is_as_printed(ValueId id) const {
  const Value& value = values_[id];
  if (!value.has_print) return false;
  // Of what is filled by hand all that was read is known.
  if (!value.uninitialized && !contents_->knows_whole(id)) return false;
  const auto storage = original_of(id);
  return storage && contents_->fits(id, storage);
}

void Tape::hold(ValueId id, Hold kind, c10::Storage storage) {
  Value& value = values_[id];
  value.storage = std::move(storage);
  value.hold = kind;
  if (is_copy(kind) && value.version_counter.enabled()) value.copy_version = value.version();
}

void Tape::let_go(ValueId id) {
  const OwnWork own_work;
  Value& value = values_[id];
  value.hold = Hold::none;
  if (value.rare) value.rare->copy.reset();  // before the storage, of which it may still be copying
  value.storage = c10::Storage();
}

void Tape::make_source(ValueId id) {
  Value& value = values_[id];
  value.must_keep = true;
  if (value.hold == Hold::source) return;
  auto storage = live_storage(id);
  if (!storage) {
    value.lost = true;
    return;
  }
  hold(id, Hold::source, std::move(storage));
}

void Tape::lose(ValueId id) {
  const Value& value = values_[id];
  const bool can_be_made_again =
      value.producer >= 0 && value.hold != Hold::source && !is_made_blindly(value);
  if (can_be_made_again) return;
  values_[id].lost = true;
  for (Op& op : ops_) {
    const bool reads = std::ranges::any_of(op.reads, [&](const Read& r) { return r.value == id; });
    if (reads) give_up(op);
  }
}

std::vector<OpId> Tape::ops_that_lose(ValueId id, Extent shown) {
  std::vector<OpId> all = values_[id].with_lent_parts().readers_in(shown);
  std::erase_if(all, [&](OpId reader) {
    const Op& op = ops_[reader];
    const bool may_run = op.replayable && (!sealed_ || op.num_wanted_results > 0);
    return !may_run || std::ranges::none_of(op.reads, [&](const Read& read) {
      return read.value == id && !read.scratch && may_vanish(op, read);
    });
  });
  return all;
}

void Tape::lose(ValueId id, const std::vector<OpId>& to_readers) {
  for (const OpId reader : to_readers) give_up(ops_[reader]);
  const Value& value = values_[id];
  if (value.num_handles > 0 || value.snapshot) return;
  values_[id].lost = true;
  if (value.external && value.hold == Hold::source) let_go(id);  // its owner may be waiting for it
}

/// Keeps what `op` has made, as it cannot run again.
void Tape::give_up(Op& op) {
  if (!op.replayable) return;
  op.replayable = false;
  for (const Result& result : op.results) {
    const Value& value = values_[result.value];
    const bool is_gone = value.overwritten_by >= 0 && !value.snapshot;
    if (is_gone || (sealed_ && value.num_wanted == 0)) continue;
    const bool was_dropped = value.hold == Hold::none;
    make_source(result.value);
    if (sealed_ && was_dropped && value.hold == Hold::source)
      counts_.unplanned_bytes += value.bytes;
  }
}

void Tape::bring_back(ValueId id) {
  const OwnWork own_work;
  hold(id, Hold::fetched, values_[id].copy()->bring_back());
}

void Tape::forget_copy(ValueId id) {
  if (values_[id].hold != Hold::fetched) return let_go(id);
  values_[id].copy()->give_up();
  hold(id, Hold::away, c10::Storage());
}

void Tape::stop_wanting(ValueId first) {
  c10::SmallVector<ValueId, 8> pending = {first};
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    Value& value = values_[id];
    if (--value.num_wanted > 0) continue;
    const bool dropped = value.hold == Hold::none || made_again(value.hold);
    if (value.hold != Hold::none) let_go(id);
    if (!dropped || value.producer < 0) continue;
    Op& op = ops_[value.producer];
    if (op.num_wanted_results == 0 || --op.num_wanted_results > 0) continue;
    for_each_input(op, [&](ValueId input) { pending.push_back(input); });
    forget_call(op);
  }
}

bool Tape::has_handles() const {
  const auto locked = lock();
  return std::ranges::any_of(values_, [](const Value& value) { return value.num_handles > 0; });
}

void Tape::seal() {
  const auto locked = lock();
  for (ValueId id = 0; id < static_cast<ValueId>(values_.size()); ++id) distrust_if_written(id);
  for (Value& value : values_) {
    if (value.version_counter.enabled() && value.owner.use_count() > 0) {
      value.note_sealed_version();
    }
  }
  decltype(by_storage_)().swap(by_storage_);  // clear() would keep its memory
  last_found_ = {};
  known_copies_.clear();
  count_wanted();
  print_what_replays_read();
  sealed_ = true;
  if (observer_) observer_->sealed(*this);
}

void Tape::share_what_is_held() {
  const auto locked = lock();
  for (ValueId id = 0; id < static_cast<ValueId>(values_.size()); ++id) {
    if (values_[id].num_handles == 0 || values_[id].external || abandoned(id)) continue;
    values_[id].with_rare().shared = original_of(id);
  }
}

// Nobody has looked at `id` since it was last read. What its memory contains now is not what was
// read, so replays must not read it; handles still do, as in plain training.
void Tape::distrust_if_written(ValueId id) {
  Value& value = values_[id];
  const bool is_content =
      value.overwritten_by < 0 && !value.snapshot && value.owner.use_count() > 0;
  if (!is_content || value.num_reads == 0 || !value.version_counter.enabled()) return;
  if (value.uninitialized && !value.must_keep) return;
  const auto due = static_cast<std::uint32_t>(value.num_due_bumps);
  if (value.version() <= value.seen_version + due || is_as_printed(id)) return;
  if (value.hold == Hold::source || is_made_blindly(value)) return lose(id);
  let_go(id);
  value.stale = true;
}

/// Frees what only a replay of `op` would need, now that there will be none. An observer reads the
/// wiring when backward has ended, and what was read blindly is asked for as long as it matters.
void Tape::forget_call(Op& op) const {
  std::exchange(op.arguments, {});
  op.rng.reset();
  if (!observer_ && std::ranges::none_of(op.reads, &Read::blind)) std::exchange(op.reads, {});
}

void Tape::count_wanted() {
  for (Value& value : values_) value.num_wanted = value.num_handles;
  for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) {
    for (const Result& result : op->results) {
      const Value& value = values_[result.value];
      // What a backward pass in the region made again may have to be made once more.
      const bool dropped = value.hold == Hold::none || made_again(value.hold);
      if (dropped && value.num_wanted > 0) ++op->num_wanted_results;
    }
    if (op->num_wanted_results == 0) {
      forget_call(*op);
      continue;
    }
    for_each_input(*op, [&](ValueId input) { ++values_[input].num_wanted; });
  }
  for (ValueId id = 0; id < static_cast<ValueId>(values_.size()); ++id) {
    if (values_[id].hold != Hold::none && values_[id].num_wanted == 0) let_go(id);
  }
}

// Prints, as far as not yet known, values that the program holds and may write before backward.
void Tape::print_what_replays_read() {
  if (guard_ == Guard::off) return;
  for (const Op& op : ops_) {
    if (op.num_wanted_results == 0) continue;
    for (const Read& read : op.reads) {
      const bool ours = values_[read.value].snapshot || may_vanish(op, read);
      if (ours || abandoned(read.value)) continue;
      if (read.geometry->is_on_cpu()) {
        print_shown(read.value, *read.geometry, reads_whole(op, read));
      } else {
        expect_on_device(*this, op, read);
      }
    }
  }
  contents_->on_devices().hash_expected();
}

void Tape::follow(SweepPlans sweeps, Absences absences) {
  sweep_plans_ = std::move(sweeps);
  absences_ = std::move(absences);
}

const plan::Sweep* Tape::sweep_plan(ValueId target) const {
  if (!sweep_plans_) return nullptr;
  const auto plan = std::ranges::lower_bound(*sweep_plans_, target, {}, &plan::Sweep::target);
  return plan != sweep_plans_->end() && plan->target == target ? &*plan : nullptr;
}

void Tape::know_copy(ValueId id, const c10::Storage& storage) {
  const auto* impl = storage.unsafeGetStorageImpl();
  if (values_[id].is_content_of(storage) || by_storage_.count(impl) > 0) return;
  know(impl, id);
  known_copies_.push_back(storage.getWeakStorageImpl());
}

}  // namespace gradrecomp::tape
