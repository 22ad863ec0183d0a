#pragma once

#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// A step as one in which more values can be kept: beside some of its values, their rounded copies.
/// See Note [ Rounding ] in roundable_graph.cpp.
class RoundableGraph {
 public:
  /// `bytes_per_second`: of values that are rounded and made of their copies again.
  RoundableGraph(const Graph& graph, double bytes_per_second);

  /// The values of the step are at the same positions, copies after them.
  [[nodiscard]] const Graph& graph() const { return rewritten_; }
  /// Of graph()'s values; what a rounded value must not change is kept.
  [[nodiscard]] std::vector<Constraint> constraints(std::vector<Constraint> of_step) const;
  /// What a plan for graph() says of the step. Nothing is predicted.
  [[nodiscard]] Plan plan_of_step(Plan plan) const;

 private:
  /// A value of the step that may be rounded.
  struct Roundable {
    Index value = -1;
    Index after = -1;  ///< the op of the step that uses it last before backward
    Index copy = -1;   ///< in the graph with copies
  };

  void find_roundables();
  void add_op(Index op);
  void add_copy(Roundable& roundable);
  void add_events();
  [[nodiscard]] double seconds_of(std::int64_t bytes) const;

  const Graph& step_;
  double bytes_per_second_;
  std::vector<Roundable> roundables_;
  std::vector<Index> roundable_of_;  ///< by value; -1: it may not be rounded
  std::vector<Index> first_op_;      ///< in the graph with copies, of each op and of the end
  Graph rewritten_;
};

}  // namespace gradrecomp::plan
