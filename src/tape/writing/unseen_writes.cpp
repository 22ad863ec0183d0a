#include "tape/writing/unseen_writes.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tape/aten/below_recording.h"
#include "tape/aten/bytes.h"
#include "tape/calls/arguments.h"
#include "tape/contents.h"
#include "tape/dispatch/plain_memory.h"

namespace gradrecomp::tape {
namespace {

/// Whether autograd follows the result of a call, whose arguments are the last of `stack`.
bool makes_gradient(const torch::jit::Stack& stack, std::size_t num_arguments) {
  if (!c10::GradMode::is_enabled()) return false;
  bool requires_grad = false;
  for (const c10::IValue& argument : torch::jit::last(stack, num_arguments)) {
    for_each_tensor(argument, [&](const at::Tensor& tensor, std::int32_t) {
      requires_grad = requires_grad || tensor.requires_grad();
    });
  }
  return requires_grad;
}

at::Tensor bytes_below_recording(const c10::Storage& storage) {
  const BelowRecording below;
  return as_bytes(storage);
}

}  // namespace

// Factories' results may be filled by hand, and so may what an op made of constants.
void UnseenWrites::look_before(const OpTraits& traits, const torch::jit::Stack& stack) {
  const std::size_t first = stack.size() - traits.num_arguments();
  const auto& statistics = traits.running_statistics;
  for (std::size_t i = 0; i < traits.num_arguments(); ++i) {
    const bool is_declared = traits.writes[i] != 0;
    const bool writes = is_declared || std::ranges::find(statistics, i) != statistics.end();
    for_each_tensor(stack[first + i], [&](const at::Tensor& tensor, std::int32_t) {
      const bool bumped = is_declared && traits.bumps_before;
      if (is_declared && is_part_enough_before_write(tensor, traits, stack)) {
        look_at_part(tensor, bumped);
      } else {
        look_at(tensor, writes || traits.reads_beyond, bumped);
      }
      if (is_declared) record_writes_to_aliases_of(tensor);
    });
  }
}

void UnseenWrites::record_writes_to_aliases_of(const at::Tensor& written) {
  for (const auto& [id, storage] : lent_aliases_.of(written)) {
    if (has_changed(id)) lose_content(id);
    record_(bytes_below_recording(storage));
  }
}

// A loop may write the rows of a large constant, which goes on as one. What is known of the rows
// that a write does not show is then known of its result too, so a look at them can wait until they
// are read. But what is copied before the write is copied whole.
bool UnseenWrites::is_part_enough_before_write(const at::Tensor& written, const OpTraits& traits,
                                               const torch::jit::Stack& stack) const {
  const ValueId known = tape_.find(written);
  if (known < 0) return false;
  const Value& value = tape_.values()[known];
  if (!value.has_print || value.external || value.bytes <= Print::kSmallBytes) return false;
  if (value.hold == Hold::source || value.hold == Hold::kept) return false;
  if (!tape_.contents().knows_whole(known)) return false;
  return traits.writes_shown && !makes_gradient(stack, traits.num_arguments());
}

void UnseenWrites::look_at_part(const at::Tensor& tensor, bool bumped) {
  const ValueId known = tape_.find(tensor);
  if (writer_.was_written_unseen(known, &tensor, bumped)) trust_as_it_is(tensor, known);
}

void UnseenWrites::look_at(const at::Tensor& tensor, bool whole, bool bumped) {
  const ValueId known = tape_.find(tensor);
  if (known < 0) return;
  const Value& value = tape_.values()[known];
  const bool is_part_enough = (value.external || value.uninitialized) && !whole;
  const bool is_written =
      writer_.was_written_unseen(known, is_part_enough ? &tensor : nullptr, bumped);
  if (is_written) trust_as_it_is(tensor, known);
}

void UnseenWrites::trust_as_it_is(const at::Tensor& tensor, ValueId value) {
  const bool was_read = tape_.values()[value].num_reads > 0;
  if (was_read) {
    lose_content(value);
    record_(tensor);
    value = writer_.read(tensor);
  }
  if (!tape_.values()[value].external) return writer_.set_filled_by_hand(value);
  tape_.make_source(value);
  tape_.print(value, Geometry(tensor), Guard::whole);
}

void UnseenWrites::note_content(const at::Tensor& tensor) {
  look_at(tensor, true, false);
  const ValueId value = writer_.read(tensor);
  if (tape_.guard() == Guard::off || tape_.is_as_printed(value)) return;
  tape_.print(value, Geometry(tensor), Guard::whole);
}

void UnseenWrites::watch_content(ValueId value) {
  if (tape_.values()[value].has_print) return;
  tape_.print(value, Geometry(), Guard::whole);
  watched_.push_back(value);
}

// A replay would read what the program has written since, while that still holds the memory.
void UnseenWrites::look_at_watched() {
  for (ValueId id = 0; id < static_cast<ValueId>(tape_.values().size()); ++id) {
    if (is_filled_by_hand(tape_.values()[id])) watched_.push_back(id);
  }
  for (const ValueId id : std::exchange(watched_, {})) {
    const Value& value = tape_.values()[id];
    if (value.overwritten_by >= 0 || value.num_reads == 0 || !has_changed(id)) continue;
    if (const c10::Storage memory = tape_.original_of(id)) {
      trust_as_it_is(bytes_below_recording(memory), id);
    }
  }
}

bool UnseenWrites::has_changed(ValueId value) const {
  const Value& known = tape_.values()[value];
  if (!known.has_print) return false;
  const bool is_known = is_filled_by_hand(known) || tape_.contents().knows_whole(value);
  return is_known && !tape_.is_as_printed(value);
}

// The memory has another content now. What the tape itself holds of it must not pass for the old
// one, which is made again where that can be done.
void UnseenWrites::lose_content(ValueId id) {
  tape_.lose(id);
  const Value& value = tape_.values()[id];
  if (value.hold != Hold::source && value.storage && value.is_content_of(value.storage)) {
    tape_.let_go(id);
  }
  if (value.lost) keep_what_hangs_on(id);
}

// Else the steps that follow the sequence would try to make again what this one has kept.
void UnseenWrites::keep_what_hangs_on(ValueId lost) {
  std::unordered_set<ValueId> gone = {lost};
  for (Op& op : tape_.ops()) {
    const auto is_gone = [&](const Read& read) { return gone.contains(read.value); };
    if (std::ranges::none_of(op.reads, is_gone)) continue;
    op.replayable = false;
    for (const Result& result : op.results) {
      if (!tape_.live_storage(result.value)) gone.insert(result.value);
      tape_.make_source(result.value);
    }
  }
}

void UnseenWrites::look_after(const at::Tensor& tensor) {
  const ValueId value = tape_.find(tensor);
  if (value >= 0 && !tape_.is_as_printed(value)) trust_as_it_is(tensor, value);
}

void UnseenWrites::note(const at::Tensor& tensor, Content content) {
  if (!is_plain(tensor) || !record_write(tensor, content)) return;
  writer_.expect_bump(writer_.read(tensor));
}

void UnseenWrites::note_part(const at::Tensor& part) {
  record_write(part, Content::not_yet_written);
}

/// False for memory that the tape does not know.
bool UnseenWrites::record_write(const at::Tensor& tensor, Content content) {
  const ValueId known = tape_.find(tensor);
  if (known < 0) return false;
  const bool is_sure = content == Content::not_yet_written || tape_.is_as_printed(known);
  if (!is_sure || has_changed(known)) lose_content(known);
  record_(tensor);
  return true;
}

std::vector<ValueId> UnseenWrites::values_to_grow(const OpTraits& traits,
                                                  const torch::jit::Stack& stack) const {
  std::vector<ValueId> growing;
  if (!traits.writes_any) return growing;
  const std::size_t first = stack.size() - traits.num_arguments();
  for (std::size_t i = 0; i < traits.num_arguments(); ++i) {
    if (traits.writes[i] == 0 || (traits.resizes && keeps_sizes(stack, traits.num_arguments()))) {
      continue;
    }
    for_each_tensor(stack[first + i], [&](const at::Tensor& tensor, std::int32_t) {
      if (!tensor.has_storage()) return;
      const ValueId known = tape_.find(tensor);
      if (known >= 0) growing.push_back(known);
    });
  }
  return growing;
}

}  // namespace gradrecomp::tape
