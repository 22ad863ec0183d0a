#pragma once

#include <span>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/host_link.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::plan {

/// A value and the event of backward that needs it first.
struct Need {
  Index value = -1;
  Index event = -1;
};

/// When offloaded values leave and come back, and what waits for that.
struct TransferSchedule {
  std::vector<Offload> offloads = {};  ///< by value
  double stall_seconds = 0;
};

/// Lays transfers over one step's time; see Note [ Transfers ] in transfers.cpp.
class Transfers {
 public:
  Transfers(const Graph& graph, const HostLink& link);

  [[nodiscard]] TransferSchedule schedule(std::vector<Need> needs) const;

 private:
  void time_ops();
  void time_events();
  [[nodiscard]] double leave(std::vector<Offload>& offloads) const;
  [[nodiscard]] double come_back(std::vector<Offload>& offloads, std::span<const Need> needs) const;
  [[nodiscard]] Index last_start(double second, Index event) const;

  const Graph& graph_;
  HostLink link_;
  std::vector<double> op_ends_;        ///< seconds into forward
  std::vector<double> event_seconds_;  ///< of demands, seconds into backward
  std::vector<Index> starts_;          ///< events that demand a value for the first time
};

}  // namespace gradrecomp::plan
