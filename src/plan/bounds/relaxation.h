#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "lives.h"
#include "min_cut.h"

namespace gradrecomp::plan {

/// A problem that every plan of a graph solves, and whose least solution is a minimum cut.
///
/// See Note [ Lower bounds ] in relaxation.cpp.
class Relaxation {
 public:
  /// A solution, and what it costs.
  template <typename Cost>
  struct Solution {
    Cost cost = 0;
    std::vector<std::uint8_t> replayed = {};  ///< per op
  };

  explicit Relaxation(const Graph& graph);

  /// Per event, the highest live bytes if no value were kept or replayed.
  [[nodiscard]] const std::vector<std::int64_t>& base_bytes() const { return base_bytes_; }

  /// Calls `hold(v, from, to)` for each value that a solution holds: after event `from`, and up to
  /// event `to`.
  template <typename Hold>
  void each_held(const std::vector<std::uint8_t>& replayed, const Hold& hold) const;

  /// The least of what is held and replayed. `held(v, from, to)` is the cost of holding a value
  /// from after event `from` up to event `to`, none if that is not later; `replay(op)` that of a
  /// replay.
  template <typename Cost, typename Held, typename Replay>
  [[nodiscard]] Solution<Cost> least(const Held& held, const Replay& replay) const;

 private:
  /// Adds what value `v` costs to `cut`, and returns what it costs in any case. `node` stands for
  /// an unsaved value of several readers; else it is below 0.
  template <typename Cost, typename Held>
  Cost add(MinCut<Cost>& cut, Index v, Index node, const Held& held) const;
  [[nodiscard]] static bool is_free(const Value& v) { return v.producer < 0 || v.snapshot; }
  [[nodiscard]] static bool can_keep(const Value& v) { return v.overwritten_by < 0; }

  const Graph* graph_;
  std::vector<std::int64_t> base_bytes_;
  std::vector<std::vector<Index>> readers_;
  std::vector<Life> lives_;
};

template <typename Hold>
void Relaxation::each_held(const std::vector<std::uint8_t>& replayed, const Hold& hold) const {
  const auto wanted = [&](Index op) { return replayed[op] != 0; };
  for (std::size_t i = 0; i < replayed.size(); ++i) {
    for (const Index v : graph_->ops[i].outputs) {
      const Value& x = graph_->values[v];
      const Life& life = lives_[v];
      if (is_free(x) || !can_keep(x)) continue;
      if (x.saved && (replayed[i] == 0 || x.must_keep)) {
        if (life.is_demanded()) hold(v, life.death, life.release);
      } else if (x.saved) {
        if (life.is_demanded()) hold(v, life.demand, life.end_if_replayed());
      } else if (replayed[i] == 0 && !x.must_keep && std::ranges::any_of(readers_[v], wanted)) {
        hold(v, life.death, life.release);
      }
    }
  }
}

template <typename Cost, typename Held>
Cost Relaxation::add(MinCut<Cost>& cut, Index v, Index node, const Held& held) const {
  const Value& x = graph_->values[v];
  const Life& life = lives_[v];
  if (is_free(x)) return 0;
  const Cost kept = held(v, life.death, life.release);
  if (!can_keep(x)) {
    for (const Index op : readers_[v]) {
      if (op != x.producer && !x.must_keep) cut.require(op, x.producer);
    }
  } else if (x.must_keep) {
    return x.saved && life.is_demanded() ? kept : Cost{0};
  } else if (x.saved) {
    if (!life.is_demanded()) return 0;
    cut.add_costs(x.producer, held(v, life.demand, life.end_if_replayed()), kept);
  } else if (node >= 0) {
    for (const Index op : readers_[v]) cut.require(op, node);
    cut.add_penalty(node, x.producer, kept);
  } else if (!readers_[v].empty()) {
    cut.add_penalty(readers_[v].front(), x.producer, kept);
  }
  return 0;
}

template <typename Cost, typename Held, typename Replay>
Relaxation::Solution<Cost> Relaxation::least(const Held& held, const Replay& replay) const {
  const auto num_ops = static_cast<Index>(graph_->ops.size());
  Index num_nodes = num_ops;
  std::vector<Index> node_of(graph_->values.size(), -1);
  for (std::size_t v = 0; v < graph_->values.size(); ++v) {
    const bool shared = !graph_->values[v].saved && readers_[v].size() > 1;
    if (shared) node_of[v] = num_nodes++;
  }
  MinCut<Cost> cut(num_nodes);
  for (Index i = 0; i < num_ops; ++i) cut.add_costs(i, replay(i), 0);
  Cost always = 0;
  for (std::size_t v = 0; v < graph_->values.size(); ++v) {
    always += add(cut, static_cast<Index>(v), node_of[v], held);
  }
  Solution<Cost> solution{always + cut.solve(), std::vector<std::uint8_t>(num_ops)};
  for (Index i = 0; i < num_ops; ++i) solution.replayed[i] = cut.inside(i) ? 1 : 0;
  return solution;
}

}  // namespace gradrecomp::plan
