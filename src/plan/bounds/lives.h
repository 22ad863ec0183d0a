#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// When a value needs its bytes; in events.
struct Life {
  static constexpr Index kNever = std::numeric_limits<Index>::max();
  Index death = kNever;       ///< the program has let go of it
  Index demand = kNever;      ///< the first after that
  Index demand_end = kNever;  ///< where the pass of that demand ends, if another comes
  Index release = 0;

  [[nodiscard]] bool is_demanded() const { return demand != kNever; }
  [[nodiscard]] Index end_if_replayed() const { return std::min(demand_end, release); }
};

/// Per event, the highest live bytes if no value were kept or replayed.
std::vector<std::int64_t> bytes_under_every_plan(const Graph& graph);

/// Per value: the ops that read it, ascending.
std::vector<std::vector<Index>> find_readers(const Graph& graph);

/// Per value. One that autograd does not save is released when the first of what its readers make
/// is, as nothing may want it after that.
std::vector<Life> find_lives(const Graph& graph, const std::vector<std::vector<Index>>& readers);

}  // namespace gradrecomp::plan
