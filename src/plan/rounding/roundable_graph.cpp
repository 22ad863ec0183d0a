#include "roundable_graph.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plan/graph/choosable_values.h"
#include "plan/simulator/replay_cost.h"

// Note [ Rounding ]
// ~~~~~~~~~~~~~~~~~
// A value of float32 that is kept may wait for backward as bfloat16, in half the bytes. To the
// planner that is one choice more, and no new notion: the value is put into the graph as if it were
// made from its rounded copy,
//   the op                         -> value as the op makes it
//   rounding     that              -> copy
//   widening     copy              -> value, over that memory
// so that a plan may keep the value, or its copy, or neither. Widening takes the time of both ways,
// and where the op itself is replayed, neither runs: so much is taken off the op's own time.
//
// The replay engine rounds later than that, when the program lets go of the value, and a copy goes
// when nothing wants its value. So a plan's peak is predicted anew on the step as it is, where
// values move as the engine moves them (Execution).
//
// Replays that read a rounded value make what is nearly equal. A number with a fraction may be
// nearly equal; an index, a mask or a choice may not, nor what was drawn by numbers of the step.
// Those are `exact` and kept: they are small, or packed.

namespace gradrecomp::plan {
namespace {

constexpr std::int64_t kLeastShare = 4096;  // of all that is saved, below which values stay
constexpr const char* kRounding = "gradrecomp::round";
constexpr const char* kWidening = "gradrecomp::widen";

/// Whether a plan may choose a form for `v` at all.
bool may_be_rounded(const Value& v, std::int64_t least_bytes) {
  return can_choose(v) && v.saved && v.rounds && v.bytes % 4 == 0 && v.bytes > least_bytes;
}

/// Of each value: the seconds of a replay that finds all that autograd saved, and what must stay
/// exact, but not the value itself.
std::vector<double> seconds_from_saved(const Graph& graph) {
  std::vector<double> seconds(graph.values.size(), 0);
  for (const Op& op : graph.ops) {
    double sum = least_replay_seconds(op);
    for (const Index u : op.inputs) {
      const bool is_there = graph.values[u].saved || graph.values[u].exact;
      sum += is_there ? 0 : seconds[u];
    }
    for (const Index v : op.outputs) seconds[v] = sum;
  }
  return seconds;
}

}  // namespace

RoundableGraph::RoundableGraph(const Graph& graph, double bytes_per_second)
    : step_(graph),
      bytes_per_second_(bytes_per_second),
      roundable_of_(graph.values.size(), -1),
      rewritten_(graph) {
  find_roundables();
  rewritten_.ops.clear();
  for (std::size_t op = 0; op < step_.ops.size(); ++op) add_op(static_cast<Index>(op));
  first_op_.push_back(static_cast<Index>(rewritten_.ops.size()));
  add_events();
}

/// Values that the program lets go of before backward, and that take longer to replay than to be
/// made from a copy.
void RoundableGraph::find_roundables() {
  const std::vector<double> seconds_to_make = seconds_from_saved(step_);
  const std::int64_t least_bytes = saved_bytes(step_) / kLeastShare;
  Index last_op = -1;
  for (const Event& event : step_.events) {
    if (event.kind == EventKind::seal) return;
    if (event.kind == EventKind::run_op) last_op = event.id;
    if (event.kind != EventKind::death) continue;
    const Value& value = step_.values[event.id];
    if (!may_be_rounded(value, least_bytes)) continue;
    if (seconds_to_make[event.id] < seconds_of(value.bytes)) continue;
    roundable_of_[event.id] = static_cast<Index>(roundables_.size());
    roundables_.push_back({.value = event.id, .after = last_op});
  }
}

double RoundableGraph::seconds_of(std::int64_t bytes) const {
  return static_cast<double>(bytes) / bytes_per_second_;
}

void RoundableGraph::add_op(Index op) {
  first_op_.push_back(static_cast<Index>(rewritten_.ops.size()));
  const std::size_t added = rewritten_.ops.size();
  rewritten_.ops.push_back(step_.ops[op]);
  for (const Index v : step_.ops[op].outputs) {
    if (roundable_of_[v] < 0) {
      rewritten_.values[v].producer = static_cast<Index>(added);
    } else {
      Op& maker = rewritten_.ops[added];
      const double spared = seconds_of(step_.values[v].bytes);
      maker.replay_seconds = std::max(0.0, maker.replay_seconds - spared);
      maker.joined_seconds = std::min(maker.joined_seconds, maker.replay_seconds);
      add_copy(roundables_[roundable_of_[v]]);
    }
  }
}

/// Puts rounding and widening after the op that makes `roundable`, which was added last but for
/// such pairs.
void RoundableGraph::add_copy(Roundable& roundable) {
  const Index v = roundable.value;
  const auto made = static_cast<Index>(rewritten_.values.size());
  roundable.copy = made + 1;
  const Index maker = first_op_.back();
  std::ranges::replace(rewritten_.ops[maker].outputs, v, made);

  Value as_made = step_.values[v];
  as_made.producer = maker;
  as_made.saved = false;
  as_made.overwritten_by = v;
  Value copy;
  copy.bytes = as_made.bytes / 2;
  copy.producer = static_cast<Index>(rewritten_.ops.size());
  copy.device = as_made.device;
  rewritten_.values.push_back(as_made);
  rewritten_.values.push_back(copy);
  rewritten_.values[v].producer = copy.producer + 1;
  rewritten_.values[v].overwrites = made;
  for (const Index u : rewritten_.ops[maker].inputs) {
    Index& overwritten_by = rewritten_.values[u].overwritten_by;
    if (overwritten_by == v) overwritten_by = made;  // in its storage, or in one of another size
  }

  Op rounding;
  rounding.name = kRounding;
  rounding.stage = step_.ops[step_.values[v].producer].stage;
  rounding.inputs = {made};
  rounding.outputs = {roundable.copy};
  rounding.transient_bytes = copy.bytes;
  rounding.by_kernel = true;
  Op widening;
  widening.name = kWidening;
  widening.stage = rounding.stage;
  widening.inputs = {roundable.copy};
  widening.outputs = {v};
  widening.replay_seconds = seconds_of(as_made.bytes);
  widening.bytes_moved = static_cast<double>(as_made.bytes + copy.bytes);
  widening.is_part = true;
  widening.by_kernel = true;
  rewritten_.ops.push_back(std::move(rounding));
  rewritten_.ops.push_back(std::move(widening));
}

void RoundableGraph::add_events() {
  rewritten_.events.clear();
  for (Event event : step_.events) {
    if (event.kind != EventKind::run_op) {
      rewritten_.events.push_back(event);
      continue;
    }
    const Index end = first_op_[event.id + 1];
    for (event.id = first_op_[event.id]; event.id < end; ++event.id) {
      rewritten_.events.push_back(event);
      const Op& op = rewritten_.ops[event.id];
      if (op.name == kWidening) rewritten_.events.push_back({EventKind::death, op.inputs.front()});
    }
  }
}

std::vector<Constraint> RoundableGraph::constraints(std::vector<Constraint> of_step) const {
  for (std::size_t v = 0; v < of_step.size(); ++v) {
    if (must_stay_exact(step_, v)) of_step[v] = Constraint::keep;
  }
  of_step.resize(rewritten_.values.size(), Constraint::open);
  for (const Roundable& r : roundables_) {
    if (of_step[r.value] == Constraint::drop) of_step[r.copy] = Constraint::drop;
  }
  return of_step;
}

Plan RoundableGraph::plan_of_step(Plan plan) const {
  for (const Roundable& r : roundables_) {
    const bool is_rounded = plan.keep[r.copy] != 0 && plan.keep[r.value] == 0;
    if (!is_rounded) continue;
    plan.keep[r.value] = 1;
    plan.roundings.push_back({.value = r.value, .after = r.after});
  }
  std::ranges::sort(plan.roundings, {}, &Rounding::value);
  plan.keep.resize(step_.values.size());
  // Also those that this backward pass did not ask for: the next one may.
  for (std::size_t v = 0; v < plan.keep.size(); ++v) {
    if (!plan.roundings.empty() && must_stay_exact(step_, v)) plan.keep[v] = 1;
  }
  const auto is_of_step = [&](Index v) { return v < static_cast<Index>(step_.values.size()); };
  for (Sweep& sweep : plan.sweeps) {
    std::erase_if(sweep.cached, [&](Index v) { return !is_of_step(v) || plan.keep[v] != 0; });
  }
  std::erase_if(plan.sweeps, [&](const Sweep& s) { return !is_of_step(s.target); });
  return plan;
}

}  // namespace gradrecomp::plan
