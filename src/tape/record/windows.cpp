#include "tape/record/windows.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tape/dispatch/recording_pause.h"

// Note [ Windows ]
// ~~~~~~~~~~~~~~~~
// A first step does not know how long it will be, and must not need what plain training needs. What
// it drops, backward makes again from the boundary before it, a whole window at once. So a step
// holds all its boundaries and one window: few boundaries want long windows, and short windows want
// many boundaries.
//
// A window ends once closing it drops a quarter more bytes than all boundaries hold then, the new
// one included. If a step saves n equal values, one of which crosses at a time, about sqrt(1.6 n)
// boundaries stay, and the last window is a quarter longer if the step ends as it is full: in all
// sqrt(8.1 n), where sqrt(8 n) would be the least without knowing n. Half full, it would be least
// at twice as many bytes. Where much crosses, as within a block, or where the first values are the
// largest, ending the window would drop little, so it goes on to a place where less crosses.
//
// What an op writes to in place may be a boundary: a sum over all layers, a buffer that a loop
// fills. The content that it had is copied until the window has been verified, else that would have
// to make it again from the step's beginning, for each window.
//
// The program may also write to a boundary by hand, when no verification will look at it any more.
// So what a boundary contains is noted, and compared whenever it is read. Where such a write is
// found, the steps that follow the sequence note that content as soon as it is made
// (Retention::drop_as_written): they have no windows, and must see the write where this one did.
//
// Backward begins with the last window. To drop that one would only have it made again at once.

namespace gradrecomp::tape {

bool Windows::is_full(std::optional<std::int64_t> most_bytes) {
  constexpr double kShare = 1.25;
  const std::int64_t saved = window_.saved_bytes;
  if (most_bytes) return saved > *most_bytes;
  const auto pays = [&](std::int64_t crossing) {
    const auto held = static_cast<double>(held_bytes_ + crossing);
    return saved > crossing && static_cast<double>(saved - crossing) >= kShare * held;
  };
  const auto now = static_cast<OpId>(writer_.tape().ops().size());
  if (!pays(0) || now < window_.next_look) return false;
  constexpr OpId kPart = 64;  // of a window may pass by until what crosses is counted again
  window_.next_look = now + (now - window_.first_op) / kPart;
  return pays(crossing_bytes());
}

bool Windows::may_close() const {
  if (!verifies_ || !writer_.tape().findings().draws) return true;
  return std::ranges::none_of(writer_.tape().ops(),
                              [](const Op& op) { return op.rng && op.rng->is_locked(); });
}

std::vector<ReplayTimes> Windows::close(bool is_last, bool takes_apart) {
  const RecordingPause pause;
  std::vector<ReplayTimes> times;
  Window following = next();
  if (verifies_) {
    times =
        verify(writer_.tape(), window_.first_op, following.first_op, takes_apart, pattern_fits_);
  }
  held_bytes_ += crossing_bytes();
  keep_beside_filled();
  settle(window_.first_value, keeps_saved_ || is_last);
  for (const ValueId boundary : window_.overwritten) writer_.forget_overwritten(boundary);
  window_ = std::move(following);
  return times;
}

Windows::Window Windows::next() const {
  const Tape& tape = writer_.tape();
  return {.first_op = static_cast<OpId>(tape.ops().size()),
          .first_value = static_cast<ValueId>(tape.values().size())};
}

void Windows::keep_beside_filled() {
  const Tape& tape = writer_.tape();
  std::unordered_set<ValueId> at_risk;
  const auto is_at_risk = [&](const Read& read) {
    const Value& value = tape.values()[read.value];
    return is_filled_by_hand(value) || at_risk.contains(read.value);
  };
  for (auto op = tape.ops().begin() + window_.first_op; op != tape.ops().end(); ++op) {
    if (std::ranges::none_of(op->reads, is_at_risk)) continue;
    for (const Result& result : op->results) {
      const Value& value = tape.values()[result.value];
      if (value.hold == Hold::none) at_risk.insert(result.value);
      if (value.hold != Hold::window) continue;
      writer_.keep(result.value);
      held_bytes_ += value.bytes;
    }
  }
}

void Windows::settle(ValueId first, bool keeps_saved) {
  Tape& tape = writer_.tape();
  // A backward pass in the region lets go of what it has used, but asks for it again in later
  // steps.
  const bool keeps_used = keeps_saved_ && tape.backward().went_early;
  for (ValueId id = first; id < static_cast<ValueId>(tape.values().size()); ++id) {
    const Value& value = tape.values()[id];
    const bool is_alive = !tape.abandoned(id);
    const bool lasts = is_alive && value.overwritten_by < 0 && value.producer >= 0;
    if (verifies_ && lasts) unseen_writes_.watch_content(id);
    if (!may_become_boundary(id)) continue;
    const bool is_saved = value.hold == Hold::window && (value.num_handles > 0 || keeps_used);
    if (is_alive || (keeps_saved && is_saved)) {
      writer_.keep(id);
    } else if (value.hold == Hold::window) {
      tape.let_go(id);
    }
  }
}

std::int64_t Windows::crossing_bytes() const {
  const Tape& tape = writer_.tape();
  std::int64_t bytes = 0;
  for (ValueId id = window_.first_value; id < static_cast<ValueId>(tape.values().size()); ++id) {
    if (may_become_boundary(id) && !tape.abandoned(id)) bytes += tape.values()[id].bytes;
  }
  return bytes;
}

bool Windows::may_become_boundary(ValueId id) const {
  const Value& value = writer_.tape().values()[id];
  return value.overwritten_by < 0 && value.hold != Hold::source && value.producer >= 0;
}

void Windows::hold_saved(ValueId id) {
  const Value& value = writer_.tape().values()[id];
  if (value.hold != Hold::none) return;
  writer_.hold_in_window(id);
  window_.saved_bytes += value.bytes;
}

void Windows::prepare_write(ValueId id) {
  const Value& value = writer_.tape().values()[id];
  const bool is_boundary = id < window_.first_value && value.hold == Hold::kept && !value.snapshot;
  if (!is_boundary) return;
  held_bytes_ = std::max<std::int64_t>(0, held_bytes_ - value.bytes);
  // Memory that nothing has read is no content to come back to.
  const bool is_unread = value.uninitialized && value.num_reads == 0;
  if (!verifies_ || is_unread) return;
  writer_.copy_before_write(id);
  window_.overwritten.push_back(id);
}

}  // namespace gradrecomp::tape
