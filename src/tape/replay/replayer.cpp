#include "tape/replay/replayer.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

#include "tape/aten/bytes.h"
#include "tape/aten/lent_memory.h"
#include "tape/aten/rng_state.h"
#include "tape/aten/stream_scope.h"
#include "tape/contents.h"
#include "tape/observer.h"
#include "tape/own_work.h"
#include "tape/replay/stream_handover.h"
#include "tape/replay/sweep.h"
#include "tape/replay/sweep_inputs.h"
#include "tape/streams.h"
#include "tape/versions.h"

namespace gradrecomp::tape {
namespace {

bool is_here(const Value& value) {
  return value.hold != Hold::none && value.hold != Hold::away && value.hold != Hold::fetched;
}

bool replays_read(const Value& value) { return value.num_wanted > value.num_handles; }

/// Calls `visit(op, read)` for each way in which replays still read `id`, until it returns false;
/// tells whether it never did. Before the seal nobody knows which they are.
template <typename Visit>
bool all_wanted_reads(const Tape& tape, ValueId id, Visit visit) {
  return std::ranges::all_of(tape.ops(), [&](const Op& op) {
    const bool is_done = tape.is_sealed() && op.num_wanted_results == 0;
    return is_done || std::ranges::all_of(op.reads, [&](const Read& read) {
             return read.value != id || read.scratch || visit(op, read);
           });
  });
}

/// Whether the region that runs may need a result again that is gone, and that one of `makers`
/// made.
bool may_be_needed(const Tape& tape, const std::vector<OpId>& makers) {
  std::vector<bool> wanted;
  for (const Value& value : tape.values()) {
    wanted.push_back(value.num_handles > 0 || value.owner.use_count() > 0);
  }
  const auto is_dropped = [&](const Result& result) {
    const Hold hold = tape.values()[result.value].hold;
    return wanted[result.value] && hold != Hold::kept && hold != Hold::source;
  };
  const auto is_gone = [&](const Result& result) {
    return is_dropped(result) && !tape.live_storage(result.value);
  };
  for (auto op = tape.ops().rbegin(); op != tape.ops().rend(); ++op) {
    if (!op->can_replay() || std::ranges::none_of(op->results, is_dropped)) continue;
    for_each_input(*op, [&](ValueId input) { wanted[input] = true; });
  }
  return std::ranges::any_of(
      makers, [&](OpId maker) { return std::ranges::any_of(tape.ops()[maker].results, is_gone); });
}

c10::Storage copy_of_what_is_read(const Tape& tape, ValueId id) {
  const c10::Storage& storage = tape.values()[id].storage;
  const auto is_apart = [](const Op& op, const Read& read) { return !reads_whole(op, read); };
  const bool are_apart = storage.device().is_cpu() && all_wanted_reads(tape, id, is_apart);
  if (!are_apart) return clone(storage);
  c10::Storage copy = memory_like(storage);
  all_wanted_reads(tape, id, [&](const Op& /*op*/, const Read& read) {
    copy_shown(storage, copy, *read.geometry);
    return true;
  });
  return copy;
}

/// Whether all that replays still read of it is there, and as it was in forward, as far as is
/// known.
bool fits_where_read(Tape& tape, ValueId id) {
  const Value& value = tape.values()[id];
  return all_wanted_reads(tape, id, [&](const Op& /*op*/, const Read& read) {
    if (read.geometry->is_on_cpu() && !is_readable(value.storage, *read.geometry)) return false;
    return !value.has_print || tape.contents().fits(id, value.storage, *read.geometry);
  });
}

}  // namespace

void Replayer::release_handle(ValueId handle, const Geometry* shown) {
  const auto locked = tape_.lock();
  let_go_of_unused();
  note_early_backward();
  const ValueId id = last_version(tape_, handle);
  if (Observer* observer = tape_.observer()) observer->releases(tape_, id);
  // A graph may die at any time, also in a pass that is of another step: what a failed one has left
  // in the engine's queues goes as the next begins.
  const int graph_task = torch::autograd::get_current_graph_task_id();
  if (graph_task >= 0 && graph_task == tape_.backward().last) touch(&tape_);
  Value& value = tape_.values()[id];
  --value.num_handles;
  if (value.num_handles == 0 && value.rare) value.rare->shared = c10::Storage();
  if (value.num_handles == 0 && value.hold == Hold::cached) tape_.let_go(id);
  if (tape_.is_sealed()) tape_.stop_wanting(id);
  const bool was_last = value.lent && value.with_lent_parts().remove_handle(shown);
  if (was_last && !value.snapshot) part_with_what_may_vanish(id, shown->extent());
}

// No node of the graph reads that from here on, so its owner may free it.
void Replayer::part_with_what_may_vanish(ValueId id, Extent shown) {
  const Value& value = tape_.values()[id];
  if (tape_.is_sealed() && !replays_read(value)) return;
  const std::vector<OpId> losing = tape_.ops_that_lose(id, shown);
  if (!tape_.is_sealed()) return part_within_region(id, losing);
  if (!losing.empty()) part_with_lent(id, losing);
}

// What the region goes on to read of that memory is another value, whatever becomes of this one: a
// plan may not change how values are numbered.
void Replayer::part_within_region(ValueId id, const std::vector<OpId>& losing) {
  const Value& value = tape_.values()[id];
  const bool is_lost = !losing.empty() && value.external;
  if (is_lost) tape_.forget(id);
  if (!is_lost || !value.storage || !may_be_needed(tape_, losing)) return tape_.lose(id, losing);
  part_with_lent(id, losing);
}

// What replays still read of it is copied while it is there: backward runs, up to which plain
// training had to have it, or its owner has not been told to free it. Around that there may be
// nothing, or a whole data set. Handles go on with the memory as it is.
void Replayer::part_with_lent(ValueId id, const std::vector<OpId>& losing) {
  Value& value = tape_.values()[id];
  if (!value.storage) return;
  const bool is_still_there = torch::autograd::get_current_graph_task_id() >= 0 ||
                              has_deleter(*value.storage.unsafeGetStorageImpl());
  const bool can_be_copied =
      is_still_there && bytes_in(value.storage) == value.bytes && can_have_like(value.storage);
  if (!can_be_copied || !fits_where_read(tape_, id)) return tape_.lose(id, losing);
  const OwnWork own_work;
  try {
    if (value.num_handles > 0) value.with_rare().shared = value.storage;
    const StreamScope stream(stream_of_maker(tape_, id));
    value.storage = copy_of_what_is_read(tape_, id);
  } catch (const std::exception&) {
    return tape_.lose(id, losing);  // no memory: destructors call this, so none may throw
  }
  value.snapshot = true;
  tape_.counts().unplanned_bytes += value.bytes;
}

// The node that asks for it may give it back to its owner as it ends, before it lets go of its
// handle.
void Replayer::copy_before_it_goes(ValueId id) {
  Value& value = tape_.values()[id];
  const bool in_backward = torch::autograd::get_current_graph_task_id() >= 0;
  if (!value.lent || value.snapshot || !replays_read(value) || !in_backward || !tape_.is_sealed()) {
    return;
  }
  part_with_lent(id, {});
}

void Replayer::hold_while_used(const at::Tensor& unpacked) {
  const auto locked = tape_.lock();
  let_go_of_unused();
  tape_.backward().unpacked.push_back(unpacked);
}

// Freeing memory may run code of the program, which may add to them. Destructors call this, so it
// takes no memory.
void Replayer::let_go_of_unused() {
  std::vector<at::Tensor>& unpacked = tape_.backward().unpacked;
  for (std::size_t i = 0; i < unpacked.size();) {
    if (unpacked[i].use_count() > 1) {
      ++i;
      continue;
    }
    std::swap(unpacked[i], unpacked.back());
    const at::Tensor unused = std::move(unpacked.back());
    unpacked.pop_back();
  }
}

void Replayer::note_early_backward() {
  const bool in_backward = torch::autograd::get_current_graph_task_id() >= 0;
  bool& went_early = tape_.backward().went_early;
  went_early = went_early || (!tape_.is_sealed() && in_backward);
}

void Replayer::asked_by(int graph_task) {
  const auto locked = tape_.lock();
  BackwardPasses& passes = tape_.backward();
  if (graph_task < 0 || graph_task == passes.last) return;
  passes.last = graph_task;
  if (passes.begins) passes.begins(tape_);
}

c10::Storage Replayer::materialize(ValueId handle) {
  const auto turn = tape_.findings().draws
                        ? turn_to_draw()
                        : std::unique_lock<std::recursive_mutex>();  // before our own lock
  const auto locked = tape_.lock();
  const ValueId id = last_version(tape_, handle);
  if (Observer* observer = tape_.observer()) observer->demanded(tape_, id);
  note_early_backward();
  touch(&tape_);
  Timer* const timer = is_here(tape_.values()[id]) ? nullptr : tape_.backward().timer.get();
  const TimedWork timed(timer, DeviceWork::demand);
  bring_back_at(id);
  auto storage = find_or_replay(id);
  copy_before_it_goes(id);
  if (const auto maker = stream_of_maker(tape_, id)) {
    hand_over(tape_, id, storage, current_stream_of(maker->device()));
  }
  if (!tape_.is_sealed()) tape_.know_copy(id, storage);
  return storage;
}

c10::Storage Replayer::find_or_replay(ValueId id) {
  // A value the program still holds but modified is read as it is, whatever copies we have:
  // autograd's own version check has passed, so plain training would read it too.
  if (auto storage = tape_.original_of(id)) return storage;
  if (auto storage = tape_.live_storage(id)) return storage;
  if (tape_.values()[id].hold != Hold::away) return replay(id);
  tape_.bring_back(id);
  return tape_.live_storage(id);
}

c10::Storage Replayer::replay(ValueId id) {
  if (Observer* observer = tape_.observer()) observer->replay_begins(tape_);
  c10::Storage made = Sweep(tape_).run(id);
  if (Observer* observer = tape_.observer()) observer->replay_ends(tape_);
  return made;
}

std::string Replayer::describe(ValueId handle) const {
  const auto locked = tape_.lock();
  const Value& value = tape_.values()[last_version(tape_, handle)];
  const std::string* plan_name = tape_.plan_name();
  std::string text = "GradRecomp was rematerializing " + std::to_string(value.bytes) + " bytes";
  if (value.producer >= 0) text += " made by " + tape_.ops()[value.producer].name();
  return text + ", under " + (plan_name != nullptr ? "the plan " + *plan_name : "no plan") + ".";
}

void Replayer::check_devices() {
  const auto changed = tape_.contents().on_devices().find_changed();
  if (!changed) return;
  refuse_overwritten(*changed->reader, tape_.values()[changed->value].bytes, /*found_late=*/true);
}

void Replayer::drop_cached() {
  const auto locked = tape_.lock();
  let_go_of_unused();  // another pass, around this one or beside it, may go on with the rest
  for (ValueId id = 0; id < static_cast<ValueId>(tape_.values().size()); ++id) {
    if (is_copy(tape_.values()[id].hold)) tape_.forget_copy(id);
  }
}

/// Starts the way back of what the plan wants here, unless the program still has it.
void Replayer::bring_back_at(ValueId demanded) {
  const AbsencePlan* absences = tape_.absences();
  if (absences == nullptr) return;
  for (const Offload& offload : absences->returning(demanded)) {
    if (offload.value >= static_cast<ValueId>(tape_.values().size())) continue;
    const bool is_away = tape_.values()[offload.value].hold == Hold::away;
    if (is_away && !tape_.live_storage(offload.value)) tape_.bring_back(offload.value);
  }
}

}  // namespace gradrecomp::tape
