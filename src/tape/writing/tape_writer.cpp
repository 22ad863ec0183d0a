#include "tape/writing/tape_writer.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tape/aten/bytes.h"
#include "tape/aten/lent_memory.h"
#include "tape/aten/stream_scope.h"
#include "tape/away/rounded_copy.h"
#include "tape/contents.h"
#include "tape/dispatch/plain_memory.h"
#include "tape/host_memory/host_copy.h"
#include "tape/observer.h"
#include "tape/own_work.h"
#include "tape/streams.h"

namespace gradrecomp::tape {
namespace {

bool is_same(const c10::VariableVersion& one, const c10::VariableVersion& other) {
  static_assert(sizeof(one) == sizeof(void*), "a counter is one pointer, which it does not show");
  return std::memcmp(&one, &other, sizeof(one)) == 0;
}

Extent whole(const at::Tensor& tensor) {
  return {0, static_cast<std::int64_t>(tensor.storage().nbytes())};
}

/// What a write to `tensor`, to the tensor that it is a view of, or to another view of that, may
/// reach.
Extent shown_with_counter_of(const at::Tensor& tensor) {
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  if (view == nullptr) return Geometry(tensor).extent();
  const at::Tensor& base =
      view->has_bw_view() ? view->get_backward_view().base_ : view->get_forward_view().base_;
  const bool is_of_the_same = base.defined() && is_plain(base) && base.is_alias_of(tensor);
  return is_of_the_same ? Geometry(base).extent() : whole(tensor);
}

// What detach() makes of a slice is no view to autograd, but counts with the tensor that it is a
// slice of, other slices of which may be read later.
void widen(Followed& followed, const at::Tensor& tensor) {
  if (covers(followed.shown, whole(tensor))) return;
  followed.shown = hull(followed.shown, shown_with_counter_of(tensor));
}

/// Whether the counter of `tensor` is followed, which then stands for what that shows, too.
bool is_followed(Value& value, const at::Tensor& tensor) {
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  if (is_same(value.version_counter, counter)) {
    if (value.rare && value.rare->own) widen(*value.rare->own, tensor);
    return true;
  }
  if (!value.rare) return false;
  const auto alias = std::ranges::find_if(
      value.rare->aliases, [&](const Alias& known) { return is_same(known.counter, counter); });
  if (alias == value.rare->aliases.end()) return false;
  widen(*alias, tensor);
  return true;
}

// The program may write to it again, by hand, and let go of it within the region: plain training's
// backward reads that. See Note [ What the program holds ].
void share_with_handles(Value& value, Value& before, const c10::Storage& storage) {
  if (before.rare) before.rare->shared = c10::Storage();
  if (value.num_handles > 0 && !value.external) value.with_rare().shared = storage;
}

}  // namespace

ValueId TapeWriter::read(const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  const ValueId known = tape_.find(storage);
  if (known >= 0) {
    follow_counter(known, tensor);
    return known;
  }
  const ValueId id = add_value(tensor, -1);
  Value& value = values()[id];
  value.external = true;
  value.lent = is_lent(*storage);
  const Extent shown = shown_with_counter_of(tensor);
  if (size_of(shown) < value.bytes) value.with_rare().own.emplace(Followed{.shown = shown});
  tape_.hold(id, Hold::source, tensor.storage());
  return id;
}

bool TapeWriter::is_external(const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return false;
  const ValueId known = tape_.find(tensor);
  return known < 0 || values()[known].external;
}

ValueId TapeWriter::add_value(const at::Tensor& tensor, OpId producer) {
  const ValueId id = add(tensor.storage(), producer);
  take_counter(id, tensor);
  return id;
}

// torch::zeros() and the like pass what at::zeros() made to make_variable(), which goes on with
// another tensor and another counter if this one is shared. So we look when it is read.
ValueId TapeWriter::add_factory_value(const at::Tensor& tensor, OpId producer) {
  return add(tensor.storage(), producer);
}

void TapeWriter::take_counter(ValueId id, const at::Tensor& tensor) {
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  if (!counter.enabled()) return;
  Value& value = values()[id];
  value.version_counter = counter;
  value.seen_version = value.version();
}

void TapeWriter::follow_counter(ValueId id, const at::Tensor& alias) {
  const auto& counter = alias.unsafeGetTensorImpl()->version_counter();
  if (!counter.enabled()) return;
  Value& value = values()[id];
  if (!value.version_counter.enabled()) return take_counter(id, alias);
  if (is_followed(value, alias)) return;
  RareParts& rare = value.with_rare();
  std::erase_if(rare.aliases, [&](const Alias& known) {
    if (!known.counter.unique()) return false;
    rare.retired_version += known.counter.current_version();
    return true;
  });
  if (!rare.own) rare.own.emplace(Followed{.shown = {0, value.bytes}});
  rare.aliases.emplace_back(counter, shown_with_counter_of(alias));
  value.seen_version += counter.current_version();
}

ValueId TapeWriter::add(const c10::Storage& storage, OpId producer) {
  const auto id = static_cast<ValueId>(values().size());
  Value& value = values().emplace_back();
  value.owner = storage.getWeakStorageImpl();
  value.bytes = static_cast<std::int64_t>(storage.nbytes());
  value.producer = producer;
  tape_.know(storage.unsafeGetStorageImpl(), id);
  return id;
}

ValueId TapeWriter::add_constant(const at::Tensor& number) {
  const std::size_t size = number.storage().nbytes();
  void* copy = std::malloc(size);
  TORCH_CHECK(copy != nullptr, "GradRecomp: out of memory for ", size, " bytes.");
  std::memcpy(copy, number.storage().data(), size);
  const auto id = static_cast<ValueId>(values().size());
  Value& value = values().emplace_back();
  value.external = true;
  value.bytes = static_cast<std::int64_t>(size);
  tape_.hold(id, Hold::source,
             c10::Storage(c10::Storage::use_byte_size_t(), size,
                          c10::DataPtr(copy, copy, &std::free, c10::kCPU), nullptr, false));
  return id;
}

// Plain training reads it in backward, so it is there until then.
void TapeWriter::hold_while_shown(ValueId id, const at::Tensor& shown) {
  Value& value = values()[id];
  value.with_lent_parts().add_handle(tape_.geometry_of(shown));
  if (!value.external || value.hold != Hold::none) return;
  tape_.hold(id, Hold::source, shown.storage());
  value.lost = false;
}

void TapeWriter::let_go_if_passing(ValueId id) {
  const Value& value = values()[id];
  const bool is_passing = value.lent && value.external && !value.snapshot;
  if (is_passing && value.num_handles == 0 && value.hold == Hold::source) tape_.let_go(id);
}

void TapeWriter::count_read(const Op& op, const Read& read) {
  Value& value = values()[read.value];
  // A read of an empty-like op's result before any recorded write reads what a raw kernel put
  // there, which cannot be made again. Autograd or a plan may have asked for it before.
  if (value.uninitialized && !read.written) {
    tape_.make_source(read.value);
    print_part(read.value, *read.geometry, reads_whole(op, read));
  }
  ++value.num_reads;
}

// Such as the slots of a buffer, of which one is filled after another has been read.
void TapeWriter::print_part(ValueId id, const Geometry& shown, bool reads_beyond) {
  Value& value = values()[id];
  Contents& contents = tape_.contents();
  if (value.has_print && contents.knows(id, shown, reads_beyond, Look::whole)) return;
  const auto storage = tape_.live_storage(id);
  if (!storage || !Print::can_look_at(storage)) return;
  contents.print_shown(id, storage, {shown, reads_beyond, false}, Look::whole);
  value.has_print = true;
}

void TapeWriter::set_filled_by_hand(ValueId id) {
  tape_.make_source(id);
  tape_.contents().forget(id);
  values()[id].has_print = false;
  values()[id].uninitialized = true;
}

void TapeWriter::print_source(ValueId id, const Geometry& shown, bool reads_beyond) {
  const Value& value = values()[id];
  if (tape_.guard() == Guard::off || value.hold != Hold::source) return;
  if (tape_.may_vanish(id, shown, reads_beyond)) return;
  if (tape_.abandoned(id)) return;  // a number of our own
  if (value.producer < 0) return tape_.print_shown(id, shown, reads_beyond);
  // Autograd may be told of a recorded write later: only a whole print tells that write from
  // another.
  if (!value.has_print) tape_.print(id, shown, Guard::whole);
}

bool TapeWriter::is_kept_by_its_maker(ValueId id) const {
  return values()[id].lent && !values()[id].external;
}

bool TapeWriter::is_unknown(ValueId id) const {
  const Value& value = values()[id];
  const bool can_look =
      tape_.guard() != Guard::off && value.storage && Print::can_look_at(value.storage);
  return can_look && !value.has_print && !tape_.abandoned(id);
}

bool TapeWriter::was_written_unseen(ValueId id, const at::Tensor* shown, bool bumped) {
  const Value& value = values()[id];
  const bool has_grown = has_new_version(id, bumped);
  if (value.uninitialized && !value.must_keep) return false;  // nothing relies on it yet
  if (!value.has_print) return has_grown;
  if (has_grown) return !tape_.is_as_printed(id);
  const auto storage = tape_.live_storage(id);
  if (!storage) return false;
  Contents& contents = tape_.contents();
  const bool fits =
      shown != nullptr ? contents.fits(id, storage, Geometry(*shown)) : contents.fits(id, storage);
  return !fits;
}

bool TapeWriter::has_new_version(ValueId id, bool bumped) {
  Value& value = values()[id];
  if (!value.version_counter.enabled()) return false;
  const std::uint32_t version = value.version();
  const auto due = static_cast<std::uint32_t>(value.num_due_bumps + (bumped ? 1 : 0));
  value.num_due_bumps = 0;
  return version > std::exchange(value.seen_version, version) + due;
}

ValueId TapeWriter::add_version(ValueId old, c10::Storage storage, OpId producer, bool bumps) {
  const ValueId id = add(storage, producer);
  Value& value = values()[id];
  Value& before = values()[old];
  value.version_counter = before.version_counter;
  if (before.rare) {
    RareParts& rare = value.with_rare();
    rare.aliases = std::move(before.rare->aliases);
    rare.own = before.rare->own;
    rare.retired_version = before.rare->retired_version;
  }
  if (value.version_counter.enabled()) value.seen_version = value.version();
  value.num_due_bumps = bumps ? 1 : 0;
  value.lent = before.lent;
  if (value.bytes == before.bytes) value.overwrites = old;  // else it has other memory
  value.external = before.external;
  has_written_externals_ |= value.external;
  // A handle means the memory, whatever is in it when backward looks; autograd's version check
  // is made by the handle itself.
  value.num_handles = std::exchange(before.num_handles, 0);
  share_with_handles(value, before, storage);
  if (before.rare && before.rare->lent_parts) {
    value.with_rare().lent_parts = std::move(before.rare->lent_parts);
    value.rare->lent_parts->forget_readers();
  }
  before.overwritten_by = id;
  const bool was_in_window = before.hold == Hold::window;
  if (!before.snapshot) {
    tape_.let_go(old);
    // A handle alone made it a source, and the handle has gone over to the new content.
    if (before.uninitialized) before.must_keep = false;
  }
  if (was_in_window) hold_in_window(id);
  return id;
}

OpId TapeWriter::add_op(Op&& op) {
  if (op.rng) tape_.findings().draws = true;
  const auto id = static_cast<OpId>(tape_.ops().size());
  for (const Read& read : op.reads) {
    Value& value = values()[read.value];
    if (value.lent && !read.scratch) value.with_lent_parts().add_reader(extent_read(op, read), id);
  }
  tape_.ops().push_back(std::move(op));
  return id;
}

void TapeWriter::snapshot_before_write(ValueId id) {
  Value& value = values()[id];
  if (value.hold == Hold::kept && tape_.is_made_blindly(value)) tape_.make_source(id);
  if (value.hold != Hold::source || value.num_reads == 0 || value.lost) return;
  copy_before_write(id);
}

void TapeWriter::copy_before_write(ValueId id) {
  Value& value = values()[id];
  if (!can_have_like(value.storage)) return tape_.lose(id);
  const OwnWork own_work;
  const StreamScope stream(stream_of_maker(tape_, id));
  value.storage = clone(value.storage);
  value.snapshot = true;
}

void TapeWriter::forget_overwritten(ValueId id) {
  if (values()[id].hold == Hold::source) return;  // nothing can make it again any more
  values()[id].snapshot = false;
  tape_.let_go(id);
}

void TapeWriter::keep(ValueId id) {
  Value& value = values()[id];
  if (value.hold == Hold::source || value.hold == Hold::kept) return;
  if (auto storage = tape_.live_storage(id)) tape_.hold(id, Hold::kept, std::move(storage));
}

void TapeWriter::keep_as_planned(ValueId id) {
  keep(id);
  const AbsencePlan* absences = tape_.absences();
  if (values()[id].hold != Hold::kept || absences == nullptr || !absences->offloads(id)) return;
  add_copy(id, [&](Value& value) {
    return std::make_shared<HostCopy>(value.storage, home_of(tape_, id));
  });
}

/// A value of which there is no memory for a copy stays.
template <class Make>
void TapeWriter::add_copy(ValueId id, const Make& make) {
  const OwnWork own_work;
  Value& value = values()[id];
  try {
    value.with_rare().copy = make(value);
  } catch (const std::exception&) {
    tape_.counts().unplanned_bytes += value.bytes;
  }
}

// Not at once: the program may be about to free what the last op read, which a copy would come on
// top of.
void TapeWriter::leave() {
  if (tape_.absences() == nullptr) return;
  const OpId op = static_cast<OpId>(tape_.ops().size()) - 1;
  for (const auto& leaving : tape_.absences()->leaving(last_left_op_ + 1, op)) {
    if (leaving.value >= static_cast<ValueId>(values().size())) continue;
    if (leaving.rounded) round(leaving.value);
    send_away(leaving.value, leaving.rounded);
  }
  last_left_op_ = op;
}

void TapeWriter::round(ValueId id) {
  if (values()[id].hold != Hold::kept) return;
  add_copy(id, [&](Value& value) {
    return std::make_shared<RoundedCopy>(value.storage, home_of(tape_, id));
  });
}

void TapeWriter::send_away(ValueId id, bool rounded) {
  Value& value = values()[id];
  if (value.hold != Hold::kept || value.copy() == nullptr) return;
  const OwnWork own_work;
  {
    const TimedWork timed(tape_.backward().timer.get(), DeviceWork::departure);
    value.copy()->leave();
  }
  tape_.hold(id, Hold::away, c10::Storage());
  Counts& counts = tape_.counts();
  (rounded ? counts.rounded_bytes : counts.offloaded_bytes) += value.bytes;
}

void TapeWriter::hold_in_window(ValueId id) {
  Value& value = values()[id];
  if (value.hold != Hold::none) return;
  if (auto storage = tape_.live_storage(id)) tape_.hold(id, Hold::window, std::move(storage));
}

ValueId TapeWriter::add_handle(const at::Tensor& tensor) {
  const ValueId id = read(tensor);
  Value& value = values()[id];
  if (value.uninitialized) tape_.make_source(id);
  // An operator may be told to return another type than in the step that was profiled.
  const AbsencePlan* absences = tape_.absences();
  const bool is_to_be_rounded = absences != nullptr && absences->rounds(id);
  if (is_to_be_rounded && tensor.scalar_type() != at::kFloat) tape_.make_source(id);
  ++value.num_handles;
  if (value.lent) hold_while_shown(id, tensor);
  if (Observer* observer = tape_.observer()) observer->saved(tape_, id, tensor.scalar_type());
  return id;
}

}  // namespace gradrecomp::tape
