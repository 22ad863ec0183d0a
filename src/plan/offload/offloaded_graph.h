#pragma once

#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "transfers.h"

namespace gradrecomp::plan {

/// Where the values of one graph are while they are offloaded.
class OffloadedGraph {
 public:
  explicit OffloadedGraph(const Graph& graph);

  /// Whether `v` is a last version that the program lets go of before backward's end, and that can
  /// be replayed down to where its storage comes from.
  [[nodiscard]] bool can_leave(std::size_t v) const;

  /// The graph in which these values take no memory; memory outside all values takes their place on
  /// the device, from their making until they have left and from their way back to their last
  /// release. `needs`: of the same values, in any order.
  [[nodiscard]] Graph graph_without(std::span<const Offload> offloads,
                                    std::span<const Need> needs) const;

 private:
  void find_leave_events();
  [[nodiscard]] Index fresh_version(Index v) const;
  [[nodiscard]] Index start_of(const Offload& offload, Index need) const;
  [[nodiscard]] Index last_use(Index v) const;

  const Graph& graph_;
  std::vector<Index> run_event_;      ///< of each op
  std::vector<Index> leave_event_;    ///< of each op: before which leaves what leaves after it
  std::vector<Index> death_event_;    ///< of each value; -1: none
  std::vector<Index> demand_event_;   ///< the first of each value; -1: none
  std::vector<Index> release_event_;  ///< of each value's last handle; past all if it never goes
};

}  // namespace gradrecomp::plan
