#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// What proves a line below which no plan of a graph lies, to be checked without a search.
///
/// For every plan, the sum of each moment's weight times the bytes live then, and of the price
/// times the overhead, is at least what a minimum cut of the graph gives. A program over the ops of
/// the graph proves more, led by these weights. All of it is in whole numbers; see Note [ Lower
/// bounds ] in relaxation.cpp and Note [ Programs over ops ] in op_program.cpp.
struct Proof {
  /// An event of the graph, and how much the bytes live then count.
  struct Moment {
    Index event = -1;
    std::int64_t weight = 0;
    bool operator==(const Moment&) const = default;
  };

  std::vector<Moment> moments = {};  ///< by event, weights above 0; empty: no proof
  std::int64_t price = 0;            ///< of 2^-40 of the plain step's cost, in weighted bytes
  bool by_ops = false;               ///< the program proves what the cut does not
  bool operator==(const Proof&) const = default;
};

}  // namespace gradrecomp::plan
