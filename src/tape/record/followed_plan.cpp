#include "tape/record/followed_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tape/writing/unseen_write_operator.h"

namespace gradrecomp::tape {
namespace {

/// Whether what is on `tape` was treated as both say.
bool agree_so_far(const RecordingPlan& one, const RecordingPlan& other, const Tape& tape) {
  for (ValueId id = 0; id < static_cast<ValueId>(tape.values().size()); ++id) {
    const Value& value = tape.values()[id];
    if (value.num_reads == 0 && value.producer < 0) continue;  // the current op is the first
    const bool is_read_blindly = value.external && !one.guards(id) && other.guards(id);
    if (is_read_blindly || one.retention_of(id) != other.retention_of(id)) return false;
  }
  return !one.absences && !other.absences;
}

}  // namespace

FollowedPlan::FollowedPlan(Tape& tape, RecordingPlan plan, Diverged diverged)
    : tape_(tape), plan_(std::move(plan)), diverged_(std::move(diverged)) {
  tape_.follow(plan_.sweeps, plan_.absences);
}

bool FollowedPlan::next_call_makes_op() const {
  if (plan_.calls == nullptr || calls_.size() >= plan_.calls->size()) return false;
  return (*plan_.calls)[calls_.size()] == static_cast<std::int32_t>(sequence_.size());
}

bool FollowedPlan::foresees(const Draft& draft) {
  hash_.add_call(draft.traits, draft.op, tape_, draft.is_fickle);
  sequence_.push_back(hash_.value());
  if (plan_.sequence == nullptr) return true;
  const std::size_t call = sequence_.size() - 1;
  return call < plan_.sequence->size() && (*plan_.sequence)[call] == hash_.value();
}

bool FollowedPlan::change() {
  const std::size_t call = sequence_.size() - 1;
  const RecordingPlan left =
      std::exchange(plan_, diverged_ ? diverged_(call, hash_.value()) : RecordingPlan{});
  tape_.follow(plan_.sweeps, plan_.absences);
  const bool agrees = agree_so_far(left, plan_, tape_);
  is_mixed_ |= !agrees;
  return agrees;
}

bool FollowedPlan::is_followed_to_the_end() const {
  return !is_mixed_ && plan_.sequence != nullptr && plan_.sequence->size() == sequence_.size();
}

// Whatever this step or the next saves for backward, a replay of what is kept is never needed,
// unless the program writes onto it, as it may by hand onto all that is printed. And where this
// step has seen a write by hand, the next must look there, too, or it would leave the plan because
// it did not look.
std::vector<ValueId> FollowedPlan::values_to_guard() const {
  const auto may_be_made_again = [&](const Result& result) {
    const Value& value = tape_.values()[result.value];
    const Retention retention = plan_.retention_of(result.value);
    return retention == Retention::drop || retention == Retention::drop_as_written ||
           (retention == Retention::keep && (value.overwritten_by >= 0 || value.has_print));
  };
  std::set<ValueId> values;
  for (const Op& op : tape_.ops()) {
    if (op.traits->ignores_content()) continue;
    const bool is_unseen_write = op.handle() == unseen_write();
    if (!is_unseen_write && std::ranges::none_of(op.results, may_be_made_again)) continue;
    for (const Read& read : op.reads) {
      if (tape_.values()[read.value].external) values.insert(read.value);
    }
  }
  return {values.begin(), values.end()};
}

}  // namespace gradrecomp::tape
