#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "gradrecomp/plan/policies.h"
#include "plan/error.h"
#include "plan/graph/closure.h"
#include "plan/graph/op_groups.h"
#include "policy_sets.h"

// Note [ Nested policies ]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Backward goes through the stages from last to first. To reverse stages [begin, end), what crosses
// into `begin` being at hand: choose a stage m in between, run on to it and hold what crosses
// there; reverse [m, end), let go, and reverse [begin, m). Nothing is run before it must be: the
// way to m, then on to the next boundary chosen within [m, end), and so on to the last stage, is
// one sweep. It starts at that stage's first demand of a value that is not there, and leaves
// behind the boundaries on its way, what crosses into the stage, and what the stage saves. The
// first of these sweeps is the forward pass itself, and what it leaves behind is the kept set.

namespace gradrecomp::plan {
namespace {

/// How many of `num_stages` stages to run before the next boundary is held: 1 to num_stages - 1.
using Split = std::function<Index(Index num_stages, Index num_free)>;

/// Writes the sweeps that reverse a chain of stages; see Note [ Nested policies ].
class Schedule {
 public:
  Schedule(const Graph& graph, Split split)
      : graph_(graph),
        split_(std::move(split)),
        groups_(stage_groups(graph, 1)),
        crossings_(find_crossings(graph, groups_)),
        closure_(graph),
        made_(drop_all(graph)) {
    if (num_stages() == 0) return;  // a step without ops has events all the same
    saves_.resize(num_stages());
    demands_.resize(num_stages());
    const std::vector<Index> stage = event_groups(graph, groups_);
    for (std::size_t t = 0; t < stage.size(); ++t) {
      const Event& event = graph.events[t];
      if (event.kind == EventKind::save) saves_[stage[t]].push_back(event.id);
      if (event.kind == EventKind::demand) demands_[stage[t]].push_back(event.id);
    }
  }

  [[nodiscard]] Index num_stages() const { return groups_.empty() ? 0 : groups_.back() + 1; }

  FixedPlan find(Index num_free) {
    plan_.keep = made_;
    if (num_stages() > 0) reverse(0, num_stages(), num_free, {});
    std::ranges::sort(plan_.sweeps, {}, &Sweep::target);
    return std::move(plan_);
  }

 private:
  /// `boundaries` are those that the sweep on its way to these stages has passed and holds.
  void reverse(Index begin, Index end, Index num_free, std::vector<Index> boundaries) {
    while (end > begin) {
      if (end - begin == 1 || num_free == 0) {
        arrive(--end, boundaries);
        boundaries.clear();
        continue;
      }
      const Index middle = begin + split_(end - begin, num_free);
      boundaries.push_back(middle);
      reverse(middle, end, num_free - 1, std::move(boundaries));
      boundaries.clear();
      end = middle;
    }
  }

  /// The sweep that has passed `boundaries` ends with `stage`.
  void arrive(Index stage, const std::vector<Index>& boundaries) {
    KeptSet left(graph_.values.size(), 0);
    for (const Index boundary : boundaries) mark_crossings(boundary, left);
    for (const Index v : saves_[stage]) left[v] = 1;
    if (!forward_is_over_) return keep(left);
    mark_crossings(stage, left);
    for (const Index v : demands_[stage]) sweep_to(v, left);
  }

  void mark_crossings(Index boundary, KeptSet& left) const {
    for (const Crossing& x : crossings_) {
      if (x.made < boundary && boundary <= x.last) left[x.value] = 1;
    }
  }

  void keep(const KeptSet& left) {
    forward_is_over_ = true;
    for (std::size_t v = 0; v < left.size(); ++v) {
      const Value& x = graph_.values[v];
      if (left[v] != 0 && x.producer >= 0 && x.overwritten_by < 0) plan_.keep[v] = 1;
    }
    made_ = plan_.keep;
  }

  /// Adds the sweep that a demand of `target` starts, if it does.
  void sweep_to(Index target, const KeptSet& left) {
    Sweep sweep{.target = target};
    for (const Index op : closure_.find(target, made_)) {
      for (const Index v : graph_.ops[op].outputs) {
        const bool can_stay = graph_.values[v].overwritten_by < 0 && !closure_.available(v, made_);
        if (left[v] != 0 && can_stay) sweep.cached.push_back(v);
      }
    }
    if (closure_.available(target, made_)) return;
    std::ranges::sort(sweep.cached);
    for (const Index v : sweep.cached) made_[v] = 1;
    made_[target] = 1;
    plan_.sweeps.push_back(std::move(sweep));
  }

  const Graph& graph_;
  Split split_;
  OpGroups groups_;
  std::vector<Crossing> crossings_;
  std::vector<std::vector<Index>> saves_;    ///< per stage, in order
  std::vector<std::vector<Index>> demands_;  ///< per stage, in order
  Closure closure_;
  KeptSet made_;  ///< held by the tape or left behind by a sweep so far
  bool forward_is_over_ = false;
  FixedPlan plan_;
};

/// C(n, k), or the largest number where that is not representable.
std::int64_t choose(std::int64_t n, std::int64_t k) {
  std::int64_t product = 1;
  for (std::int64_t i = 1; i <= std::min(k, n - k); ++i) {
    if (product > std::numeric_limits<std::int64_t>::max() / (n - i + 1)) {
      return std::numeric_limits<std::int64_t>::max();
    }
    product = product * (n - i + 1) / i;
  }
  return product;
}

/// t(l, s) of revolve_n's docstring: the fewest stage runs that reverse `l` stages.
std::int64_t fewest_runs(std::int64_t l, std::int64_t s) {
  std::int64_t r = 0;
  while (choose(s + r, s) < l) ++r;
  return r == 0 ? 0 : r * l - choose(s + r, r - 1);
}

/// The last boundary to split at that still leads to the fewest runs in all.
Index binomial_split(Index num_stages, Index num_free) {
  const Index s = num_free + 1;
  const std::int64_t fewest = fewest_runs(num_stages, s);
  for (Index m = num_stages - 1; m > 1; --m) {
    if (m + fewest_runs(num_stages - m, s - 1) + fewest_runs(m, s) == fewest) return m;
  }
  return 1;
}

}  // namespace

FixedPlan revolve_n(const Graph& graph, Index num_checkpoints) {
  if (num_checkpoints < 1) {
    raise({"revolve_n", "num_checkpoints", spelled(num_checkpoints), "at least 1",
           "Pass how many stage boundaries may be held at a time"});
  }
  Schedule schedule(graph, binomial_split);
  return schedule.find(std::min(num_checkpoints, schedule.num_stages()));
}

FixedPlan nested(const Graph& graph) {
  Schedule schedule(graph, [](Index num_stages, Index) { return (num_stages + 1) / 2; });
  return schedule.find(schedule.num_stages());
}

std::vector<FixedPlan> nested_plans(const Graph& graph, int most) {
  std::vector<FixedPlan> plans{nested(graph)};
  const OpGroups groups = stage_groups(graph, 1);
  const Index num_stages = groups.empty() ? 0 : groups.back() + 1;
  for (const Index n : spread_counts(num_stages, most)) plans.push_back(revolve_n(graph, n));
  return plans;
}

}  // namespace gradrecomp::plan
