#include "tape/tape.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tape/aten/lent_memory.h"
#include "tape/aten/polite_lock.h"
#include "tape/aten/stream_scope.h"
#include "tape/contents.h"
#include "tape/dispatch/op_traits.h"
#include "tape/host_memory/host_copy.h"
#include "tape/observer.h"
#include "tape/replay/replay_thread.h"
#include "tape/replay/sweep.h"
#include "tape/replay/verification.h"

namespace gradrecomp::tape {
namespace {

bool made_again(Hold hold) { return hold == Hold::cached || hold == Hold::listed; }

/// Whether it is memory that the program has never seen.
bool is_copy(Hold hold) { return made_again(hold) || hold == Hold::fetched; }

// Grows with each write in place, through whichever tensor.
std::uint32_t version_of(const Value& value) {
  std::uint32_t version = value.retired_version + value.version_counter.current_version();
  for (const auto& counter : value.alias_counters) version += counter.current_version();
  return version;
}

bool is_same(const c10::VariableVersion& one, const c10::VariableVersion& other) {
  static_assert(sizeof(one) == sizeof(void*), "a counter is one pointer, which it does not show");
  return std::memcmp(&one, &other, sizeof(one)) == 0;
}

bool is_watched(const Value& value, const c10::VariableVersion& counter) {
  const auto is_this = [&](const c10::VariableVersion& known) { return is_same(known, counter); };
  return is_this(value.version_counter) || std::ranges::any_of(value.alias_counters, is_this);
}

}  // namespace

Tape::Tape() : contents_(std::make_unique<Contents>()) {}
Tape::~Tape() = default;

std::unique_lock<std::recursive_mutex> Tape::lock() const { return lock_politely(mutex_); }
std::unique_lock<std::recursive_mutex> Tape::try_lock() const {
  return std::unique_lock(mutex_, std::try_to_lock);
}

ValueId Tape::last_version(ValueId value) const {
  while (values_[value].overwritten_by >= 0) value = values_[value].overwritten_by;
  return value;
}

bool Tape::abandoned(ValueId id) const {
  const Value& value = values_[id];
  const std::size_t own = value.storage ? 1 : 0;
  return value.owner.use_count() <= own;
}

ValueId Tape::find(const c10::StorageImpl* storage) const {
  const auto entry = by_storage_.find(storage);
  return entry == by_storage_.end() ? -1 : entry->second;
}

ValueId Tape::read(const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  const ValueId known = find(storage);
  if (known >= 0) {
    watch(known, tensor);
    return known;
  }
  const ValueId id = add_value(tensor, -1);
  values_[id].external = true;
  values_[id].borrowed = is_lent(*storage);
  hold(id, Hold::source, tensor.storage());
  return id;
}

bool Tape::may_vanish(ValueId id) const {
  return values_[id].borrowed && !values_[id].snapshot && values_[id].num_handles == 0;
}

bool Tape::is_kept_by_its_maker(ValueId id) const {
  return values_[id].borrowed && !values_[id].external;
}

ValueId Tape::add_value(const at::Tensor& tensor, OpId producer) {
  const ValueId id = add(tensor.storage(), producer);
  take_counter(id, tensor);
  return id;
}

// torch::zeros() and the like pass what at::zeros() made to make_variable(), which goes on with
// another tensor and another counter if somebody shares this one. So we look when it is read.
ValueId Tape::add_factory_value(const at::Tensor& tensor, OpId producer) {
  return add(tensor.storage(), producer);
}

void Tape::take_counter(ValueId id, const at::Tensor& tensor) {
  if (tensor.is_inference()) return;
  Value& value = values_[id];
  value.version_counter = tensor.unsafeGetTensorImpl()->version_counter();
  value.seen_version = version_of(value);
}

void Tape::watch(ValueId id, const at::Tensor& alias) {
  if (alias.is_inference()) return;
  Value& value = values_[id];
  if (!value.version_counter.enabled()) return take_counter(id, alias);
  const auto& counter = alias.unsafeGetTensorImpl()->version_counter();
  if (is_watched(value, counter)) return;
  std::erase_if(value.alias_counters, [&](const c10::VariableVersion& known) {
    if (!known.unique()) return false;
    value.retired_version += known.current_version();
    return true;
  });
  value.alias_counters.push_back(counter);
  value.seen_version += counter.current_version();
}

ValueId Tape::add(const c10::Storage& storage, OpId producer) {
  const auto id = static_cast<ValueId>(values_.size());
  Value& value = values_.emplace_back();
  value.owner = storage.getWeakStorageImpl();
  value.bytes = static_cast<std::int64_t>(storage.nbytes());
  value.producer = producer;
  by_storage_[storage.unsafeGetStorageImpl()] = id;
  return id;
}

ValueId Tape::add_constant(const at::Tensor& number) {
  const std::size_t size = number.storage().nbytes();
  void* copy = std::malloc(size);
  TORCH_CHECK(copy != nullptr, "Tape::add_constant: out of memory for ", size, " bytes.");
  std::memcpy(copy, number.storage().data(), size);
  const auto id = static_cast<ValueId>(values_.size());
  Value& value = values_.emplace_back();
  value.external = true;
  value.bytes = static_cast<std::int64_t>(size);
  hold(id, Hold::source,
       c10::Storage(c10::Storage::use_byte_size_t(), size,
                    c10::DataPtr(copy, copy, &std::free, c10::kCPU), nullptr, false));
  return id;
}

void Tape::count_read(const Read& read) {
  Value& value = values_[read.value];
  // What is read of an empty-like op's result, before any recorded write, is what a raw kernel put
  // there: it cannot be made again.
  if (value.uninitialized && !read.written && !value.must_keep) {
    make_source(read.value);
    print(read.value, read.geometry, Guard::sampled);
  }
  ++value.num_reads;
}

void Tape::print(ValueId id, const Geometry& geometry, Guard guard) {
  const auto storage = live_storage(id);
  if (!storage || !Print::can_look_at(storage)) return;
  contents_->print(id, storage, geometry, guard == Guard::whole ? Look::whole : Look::sampled);
  values_[id].has_print = true;
}

void Tape::print_source(ValueId id, const Geometry& geometry) {
  const Value& value = values_[id];
  const bool matters = value.hold == Hold::source && !value.has_print;
  if (guard_ == Guard::off || !matters || may_vanish(id)) return;
  if (abandoned(id)) return;  // a number of our own
  // Autograd may be told of a recorded write later: only a whole print says that it was no other.
  print(id, geometry, value.producer >= 0 ? Guard::whole : guard_);
}

bool Tape::is_unknown(ValueId id) const {
  const Value& value = values_[id];
  const bool can_look = guard_ != Guard::off && value.storage && Print::can_look_at(value.storage);
  return can_look && !value.has_print && !abandoned(id);
}

bool Tape::was_written_unseen(ValueId id, const at::Tensor& shown, bool bumped) {
  const Value& value = values_[id];
  const bool has_grown = has_new_version(id, bumped);
  if (value.uninitialized && !value.must_keep) return false;
  if (!value.has_print) return has_grown;
  if (has_grown) return !is_as_printed(id);
  const auto storage = live_storage(id);
  return storage && !contents_->fits(id, storage, Geometry(shown));
}

bool Tape::was_written_unseen(ValueId id, bool bumped) {
  const Value& value = values_[id];
  const bool has_grown = has_new_version(id, bumped);
  if (value.uninitialized && !value.must_keep) return false;  // nobody has relied on it yet
  if (!value.has_print) return has_grown;
  if (has_grown) return !is_as_printed(id);
  const auto storage = live_storage(id);
  return storage && !contents_->fits(id, storage);
}

/// Whether its version counter has grown since the last look, beyond what was expected.
bool Tape::has_new_version(ValueId id, bool bumped) {
  Value& value = values_[id];
  if (!value.version_counter.enabled()) return false;
  const std::uint32_t version = version_of(value);
  const auto due = static_cast<std::uint32_t>(value.num_due_bumps + (bumped ? 1 : 0));
  value.num_due_bumps = 0;
  return version > std::exchange(value.seen_version, version) + due;
}

// Functions of the program tell autograd of writes that have been recorded, too.
bool Tape::is_as_printed(ValueId id) const {
  if (!values_[id].has_print || !contents_->knows_whole(id)) return false;
  const auto storage = original_of(id);
  return storage && contents_->fits(id, storage);
}

void Tape::lose(ValueId id) {
  const bool can_be_made_again = values_[id].hold != Hold::source && !is_made_blindly(values_[id]);
  if (can_be_made_again) return;
  values_[id].lost = true;
  for (Op& op : ops_) {
    const bool reads = std::ranges::any_of(op.reads, [&](const Read& r) { return r.value == id; });
    if (!reads || !op.replayable) continue;
    op.replayable = false;
    for (const Result& result : op.results) {
      const Value& value = values_[result.value];
      if (value.overwritten_by >= 0 || (sealed_ && value.num_wanted == 0)) continue;
      const bool was_dropped = value.hold == Hold::none;
      make_source(result.value);
      if (sealed_ && was_dropped && value.hold == Hold::source) unplanned_bytes_ += value.bytes;
    }
  }
}

ValueId Tape::add_version(ValueId old, c10::Storage storage, OpId producer, bool bumps) {
  const ValueId id = add(storage, producer);
  Value& value = values_[id];
  Value& before = values_[old];
  value.version_counter = before.version_counter;
  value.alias_counters = std::move(before.alias_counters);
  value.retired_version = before.retired_version;
  if (value.version_counter.enabled()) value.seen_version = version_of(value);
  value.num_due_bumps = bumps ? 1 : 0;
  value.borrowed = before.borrowed;
  if (value.bytes == before.bytes) value.overwrites = old;  // else it has other memory
  value.external = before.external;
  // A handle means the memory, whatever is in it when backward looks; autograd's version check
  // is made by the handle itself.
  value.num_handles = std::exchange(before.num_handles, 0);
  before.overwritten_by = id;
  const bool was_in_window = before.hold == Hold::window;
  if (!before.snapshot) {
    let_go(old);
    // A handle alone made it a source, and the handle has gone over to the new content.
    if (before.uninitialized) before.must_keep = false;
  }
  if (was_in_window) hold_in_window(id);
  return id;
}

OpId Tape::add_op(Op op) {
  draws_ = draws_ || op.rng != nullptr;
  ops_.push_back(std::move(op));
  return static_cast<OpId>(ops_.size()) - 1;
}

bool Tape::is_made_blindly(const Value& value) const {
  return value.producer >= 0 && std::ranges::any_of(ops_[value.producer].reads, &Read::blind);
}

void Tape::snapshot_before_write(ValueId id) {
  Value& value = values_[id];
  if (value.hold == Hold::kept && is_made_blindly(value)) make_source(id);
  if (value.hold != Hold::source || value.num_reads == 0 || value.lost) return;
  const OwnWork own_work;
  const StreamScope stream(stream_of_maker(id));
  value.storage = Sweep::clone(value.storage);
  value.snapshot = true;
}

void Tape::hold(ValueId id, Hold kind, c10::Storage storage) {
  Value& value = values_[id];
  value.storage = std::move(storage);
  value.hold = kind;
  if (is_copy(kind) && value.version_counter.enabled()) value.copy_version = version_of(value);
}

void Tape::let_go(ValueId id) {
  const OwnWork own_work;
  Value& value = values_[id];
  value.hold = Hold::none;
  value.host.reset();  // before the storage, of which it may still be copying
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

void Tape::keep(ValueId id) {
  Value& value = values_[id];
  if (value.hold == Hold::source || value.hold == Hold::kept) return;
  if (auto storage = live_storage(id)) hold(id, Hold::kept, std::move(storage));
}

void Tape::keep_as_planned(ValueId id) {
  keep(id);
  Value& value = values_[id];
  if (value.hold != Hold::kept || !offloads_ || !offloads_->takes(id)) return;
  const OwnWork own_work;
  try {
    value.host = std::make_shared<HostCopy>(value.storage, home_of(id));
  } catch (const std::exception&) {
    unplanned_bytes_ += value.bytes;  // it stays, for want of memory on the host
  }
}

void Tape::leave_after(OpId op) {
  if (!offloads_) return;
  for (const Offload& offload : offloads_->leaving(last_left_op_ + 1, op)) {
    const ValueId id = offload.value;
    if (id >= static_cast<ValueId>(values_.size())) continue;
    Value& value = values_[id];
    if (value.hold != Hold::kept || !value.host) continue;
    const OwnWork own_work;
    value.host->leave();
    hold(id, Hold::offloaded, c10::Storage());
    offloaded_bytes_ += value.bytes;
  }
  last_left_op_ = op;
}

/// Starts the way back; readers of the value wait for its end.
void Tape::bring_back(ValueId id) {
  const OwnWork own_work;
  hold(id, Hold::fetched, values_[id].host->bring_back());
}

/// Starts the way back of what the plan wants here, unless the program still has it.
void Tape::bring_back_at(ValueId demanded) {
  if (!offloads_) return;
  for (const Offload& offload : offloads_->returning(demanded)) {
    if (offload.value >= static_cast<ValueId>(values_.size())) continue;
    const bool is_away = values_[offload.value].hold == Hold::offloaded;
    if (is_away && !live_storage(offload.value)) bring_back(offload.value);
  }
}

void Tape::hold_in_window(ValueId id) {
  Value& value = values_[id];
  if (value.hold != Hold::none) return;
  if (auto storage = live_storage(id)) hold(id, Hold::window, std::move(storage));
}

void Tape::close_window(ValueId first, bool keeps_saved) {
  for (ValueId id = first; id < static_cast<ValueId>(values_.size()); ++id) {
    const Value& value = values_[id];
    if (value.overwritten_by >= 0 || value.hold == Hold::source) continue;
    if (!abandoned(id) || (keeps_saved && value.hold == Hold::window)) {
      keep(id);
    } else if (value.hold == Hold::window) {
      let_go(id);
    }
  }
}

void Tape::seal() {
  const auto guard = lock();
  for (ValueId id = 0; id < static_cast<ValueId>(values_.size()); ++id) distrust_if_written(id);
  for (Value& value : values_) {
    if (value.version_counter.enabled() && value.owner.use_count() > 0) {
      value.sealed_version = version_of(value);
    }
  }
  by_storage_.clear();
  shown_.clear();
  count_wanted();
  print_what_replays_read();
  sealed_ = true;
  if (observer_) observer_->sealed(*this);
}

// Nobody has looked at `id` since it was last read. What its memory contains now is not what was
// read, so replays must not read it; handles still do, as in plain training.
void Tape::distrust_if_written(ValueId id) {
  Value& value = values_[id];
  const bool is_content = value.overwritten_by < 0 && value.owner.use_count() > 0;
  if (!is_content || value.num_reads == 0 || !value.version_counter.enabled()) return;
  if (value.uninitialized && !value.must_keep) return;
  const auto due = static_cast<std::uint32_t>(value.num_due_bumps);
  if (version_of(value) <= value.seen_version + due || is_as_printed(id)) return;
  if (value.hold == Hold::source || is_made_blindly(value)) return lose(id);
  let_go(id);
  value.stale = true;
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
      op->arguments.clear();
      op->rng.reset();
      continue;
    }
    for_each_input(*op, [&](ValueId input) { ++values_[input].num_wanted; });
  }
  for (ValueId id = 0; id < static_cast<ValueId>(values_.size()); ++id) {
    if (values_[id].hold != Hold::none && values_[id].num_wanted == 0) let_go(id);
  }
}

// What is not known yet of values that somebody else holds, and may write before backward.
void Tape::print_what_replays_read() {
  if (guard_ == Guard::off) return;
  for (const Op& op : ops_) {
    if (op.num_wanted_results == 0) continue;
    for (const Read& read : op.reads) {
      const Value& value = values_[read.value];
      const bool ours = value.snapshot || may_vanish(read.value);
      if (value.has_print || ours || abandoned(read.value)) continue;
      print(read.value, read.geometry, guard_);
    }
  }
}

ValueId Tape::add_handle(const at::Tensor& tensor) {
  const ValueId id = read(tensor);
  Value& value = values_[id];
  if (value.uninitialized) make_source(id);
  ++value.num_handles;
  if (observer_) observer_->saved(*this, id);
  return id;
}

void Tape::release_handle(ValueId handle) {
  const auto guard = lock();
  let_go_of_unused();
  note_early_backward();
  const ValueId id = last_version(handle);
  if (observer_) observer_->releases(*this, id);
  touch(this);
  Value& value = values_[id];
  --value.num_handles;
  if (value.num_handles == 0 && value.hold == Hold::cached) let_go(id);
  if (!sealed_ && may_vanish(id)) lose(id);
  if (sealed_) stop_wanting(id);
  if (sealed_ && may_vanish(id)) part_with_lent(id);
}

// No node of the graph reads it from here on, so its owner may free it. What replays still read of
// it is copied while backward runs, up to which plain training had to have it; later it may be
// gone.
void Tape::part_with_lent(ValueId id) {
  Value& value = values_[id];
  if (value.num_wanted == 0 || !value.storage) return;
  if (torch::autograd::get_current_graph_task_id() < 0) return lose(id);
  if (value.has_print && !contents_->fits(id, value.storage)) return lose(id);
  const OwnWork own_work;
  try {
    const StreamScope stream(stream_of_maker(id));
    value.storage = Sweep::clone(value.storage);
  } catch (const std::exception&) {
    return lose(id);  // for want of memory: destructors call this, which must not throw
  }
  value.snapshot = true;
  unplanned_bytes_ += value.bytes;
}

void Tape::hold_while_used(const at::Tensor& unpacked) {
  const auto guard = lock();
  let_go_of_unused();
  unpacked_.push_back(unpacked);
}

void Tape::let_go_of_unused() {
  std::vector<at::Tensor> unused;  // freeing memory may run code of the program
  std::erase_if(unpacked_, [&](at::Tensor& unpacked) {
    if (unpacked.use_count() > 1) return false;
    unused.push_back(std::move(unpacked));
    return true;
  });
}

void Tape::stop_wanting(ValueId first) {
  std::vector<ValueId> pending = {first};
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
    op.arguments.clear();
    op.rng.reset();
  }
}

c10::Storage Tape::live_storage(ValueId id) const {
  const Value& value = values_[id];
  if (value.hold == Hold::fetched) value.host->arrive();
  if (value.storage) return value.storage;
  if (value.overwritten_by >= 0 || value.stale) return {};
  auto storage = value.owner.lock();
  if (!storage) return {};
  return is_modified(id) ? c10::Storage() : c10::Storage(std::move(storage));
}

/// Whether its memory has been written since the region ended or, while that runs, since the
/// recorder looked.
bool Tape::is_modified(ValueId id) const {
  const Value& value = values_[id];
  if (!value.version_counter.enabled()) return false;
  const std::uint32_t version = version_of(value);
  if (sealed_) return version != value.sealed_version;
  const auto due = static_cast<std::uint32_t>(value.num_due_bumps);
  return version > value.seen_version + due && !is_as_printed(id);
}

void Tape::check_unmodified(ValueId id, const Op& reader) const {
  const Value& value = values_[id];
  if (is_copy(value.hold) || value.snapshot || !is_modified(id)) return;
  TORCH_CHECK(
      false,
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: an input of ",
      reader.handle.schema().name(), " of ", value.bytes, " bytes is at version ",
      version_of(value), "; expected version ", sealed_ ? value.sealed_version : value.seen_version,
      " instead. GradRecomp needs it to rematerialize a dropped value. Modify it after "
      "backward, or keep that value.");
}

// Before a replay reads a value that it did not make.
void Tape::check_content(const Read& read, const Op& reader) {
  const Value& value = values_[read.value];
  const bool shared = value.hold == Hold::source || value.hold == Hold::kept;
  if (!value.has_print || !shared || value.snapshot || guard_ == Guard::off) return;
  // What is written goes on with all that it contains.
  const bool reads_whole = read.written || traits_of(reader.handle).reads_beyond;
  const bool fits =
      reads_whole ? contents_->fits_in_sweep(read.value, value.storage, num_sweeps_)
                  : contents_->fits_in_sweep(read.value, value.storage, read.geometry, num_sweeps_);
  TORCH_CHECK(
      fits, "GradRecomp: an input of ", reader.handle.schema().name(), " of ", value.bytes,
      " bytes was written to since the forward pass, without a word to its version counter (by a "
      "raw pointer, x.data(), or a refilled buffer), but a replay needs what it was. Write to it "
      "after backward, give the region a clone of it, or keep what ",
      reader.handle.schema().name(), " makes by Options::selection.");
}

// What the program still holds of a dropped or offloaded value may have been written unseen.
void Tape::look_for_stale(ValueId id) {
  Value& value = values_[id];
  const bool has_another = value.hold == Hold::none || value.hold == Hold::offloaded;
  if (!has_another || !value.has_print) return;
  const auto storage = live_storage(id);
  if (storage && !contents_->fits_in_sweep(id, storage, num_sweeps_)) value.stale = true;
}

void Tape::note_early_backward() {
  const bool in_backward = torch::autograd::get_current_graph_task_id() >= 0;
  went_backward_early_ = went_backward_early_ || (!sealed_ && in_backward);
}

bool Tape::has_handles() const {
  const auto guard = lock();
  return std::ranges::any_of(values_, [](const Value& value) { return value.num_handles > 0; });
}

void Tape::asked_by(int graph_task) {
  const auto guard = lock();
  if (graph_task < 0 || graph_task == last_graph_task_) return;
  last_graph_task_ = graph_task;
  if (backward_begins_) backward_begins_(*this);
}

c10::Storage Tape::materialize(ValueId handle) {
  const auto turn =
      draws_ ? turn_to_draw() : std::unique_lock<std::recursive_mutex>();  // before our own lock
  const auto guard = lock();
  const ValueId id = last_version(handle);
  if (observer_) observer_->demanded(*this, id);
  note_early_backward();
  touch(this);
  bring_back_at(id);
  auto storage = find_or_replay(id);
  if (const auto maker = stream_of_maker(id)) {
    lend(id, storage, present_stream_of(maker->device()));
  }
  if (!sealed_) show_as(id, storage);
  return storage;
}

std::optional<c10::Stream> Tape::stream_of_maker(ValueId id) const {
  const OpId producer = values_[id].producer;
  return producer < 0 ? std::nullopt : ops_[producer].stream;
}

// What is written in place keeps the memory of another op, on whose stream it may have been made.
// What the region has not made is copied where the first op writes to it.
std::optional<c10::Stream> Tape::home_of(ValueId id) const {
  const auto home = stream_of_maker(id);
  for (id = values_[id].overwrites; id >= 0 && values_[id].producer >= 0;
       id = values_[id].overwrites) {
    if (stream_of_maker(id) != home) return std::nullopt;
  }
  return home;
}

// Another stream has waited for a replay only if it asked for it; and it is freed at home, whoever
// has read it elsewhere.
void Tape::lend(ValueId id, const c10::Storage& storage, const c10::Stream& reader) const {
  const auto maker = stream_of_maker(id);
  const bool waits = maker && *maker != reader && made_again(values_[id].hold);
  if (waits) order(*maker, reader);
  if (home_of(id) != reader) note_use(storage, reader);
}

// A backward pass inside the region goes on with what a replay made as it would with the original.
void Tape::show_as(ValueId id, const c10::Storage& storage) {
  const auto* impl = storage.unsafeGetStorageImpl();
  if (values_[id].is_content_of(storage) || by_storage_.count(impl) > 0) return;
  by_storage_[impl] = id;
  shown_.push_back(storage.getWeakStorageImpl());
}

c10::Storage Tape::find_or_replay(ValueId id) {
  // A value the program still holds but modified is read as it is, whatever copies we have:
  // autograd's own version check has passed, so plain training would read it too.
  if (auto storage = original_of(id)) return storage;
  if (auto storage = live_storage(id)) return storage;
  if (values_[id].hold != Hold::offloaded) return replay(id);
  bring_back(id);
  return live_storage(id);
}

/// What the program holds of `id`, if it still does.
c10::Storage Tape::original_of(ValueId id) const {
  if (values_[id].overwritten_by >= 0) return {};
  auto storage = values_[id].owner.lock();
  return storage ? c10::Storage(std::move(storage)) : c10::Storage();
}

c10::Storage Tape::replay(ValueId id) {
  if (observer_) observer_->replay_begins(*this);
  c10::Storage made = Sweep(*this).run(id);
  if (observer_) observer_->replay_ends(*this);
  return made;
}

std::string Tape::describe(ValueId handle) const {
  const auto guard = lock();
  const Value& value = values_[last_version(handle)];
  std::string text = "GradRecomp was rematerializing " + std::to_string(value.bytes) + " bytes";
  if (value.producer >= 0) text += " made by " + ops_[value.producer].handle.schema().name();
  return text + ", under " + (plan_name_ ? "the plan " + *plan_name_ : "no plan") + ".";
}

std::vector<ReplayTimes> Tape::verify(OpId first, OpId last, bool finds_kernels) {
  const auto on_device = std::find_if(ops_.begin() + first, ops_.begin() + last,
                                      [](const Op& op) { return op.stream.has_value(); });
  const bool is_on_cpu = on_device == ops_.begin() + last;
  std::vector<ReplayTimes> times;
  run_where_replays_run(is_on_cpu ? c10::Device(c10::kCPU) : on_device->stream->device(),
                        [&] { times = Verification(*this, finds_kernels).run(first, last); });
  return times;
}

c10::Device Tape::device() const {
  const auto op = std::ranges::find_if(ops_, [](const Op& o) { return o.stream.has_value(); });
  return op != ops_.end() ? op->stream->device() : c10::Device(c10::kCPU);
}

bool Tape::has_one_mode() const {
  return std::ranges::all_of(ops_, [&](const Op& op) {
    return op.dispatch_state->mode() == ops_.front().dispatch_state->mode();
  });
}

std::vector<Variant> Tape::variants() const {
  std::vector<Variant> variants;
  for (const Op& op : ops_) variants.push_back(op.variant);
  return variants;
}

void Tape::drop_cached() {
  const auto guard = lock();
  let_go_of_unused();  // another pass, around this one or beside it, may go on with the rest
  for (ValueId id = 0; id < static_cast<ValueId>(values_.size()); ++id) {
    if (is_copy(values_[id].hold)) forget_copy(id);
  }
}

void Tape::forget_copy(ValueId id) {
  if (values_[id].hold != Hold::fetched) return let_go(id);
  values_[id].host->give_up();
  hold(id, Hold::offloaded, c10::Storage());
}

// A node of the graph may write onto what backward gives it.
void Tape::forget_copy_if_written(ValueId id) {
  const Value& value = values_[id];
  if (!is_copy(value.hold) || !value.version_counter.enabled()) return;
  if (version_of(value) != value.copy_version) forget_copy(id);
}

void Tape::follow(SweepPlans sweeps, Offloads offloads) {
  sweep_plans_ = std::move(sweeps);
  offloads_ = std::move(offloads);
}

const plan::Sweep* Tape::sweep_plan(ValueId target) const {
  if (!sweep_plans_) return nullptr;
  const auto plan = std::ranges::lower_bound(*sweep_plans_, target, {}, &plan::Sweep::target);
  return plan != sweep_plans_->end() && plan->target == target ? &*plan : nullptr;
}

}  // namespace gradrecomp::tape
