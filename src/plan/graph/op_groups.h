#pragma once

#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"

namespace gradrecomp::plan {

/// The ops of a graph in runs: the group of every op, from 0 on and never falling.
using OpGroups = std::vector<Index>;

/// Groups of `k` stages in the order they first run.
OpGroups stage_groups(const Graph& graph, Index k);

/// The group at work in each event: in forward that of the op that ran last, in backward the one
/// that saved what was demanded last.
///
/// If several saved the same value, backward comes to the last one first.
std::vector<Index> event_groups(const Graph& graph, const OpGroups& groups);

/// The last value in the storage of `v`: no earlier content of a storage can be kept.
Index last_version(const Graph& graph, Index v);

/// A value that is made in one group and read or saved in a later one.
struct Crossing {
  Index value = -1;  ///< the content that can be kept: the last of its storage
  Index made = 0;    ///< the group that makes it
  Index last = 0;    ///< the last group that reads or saves it
};

/// What crosses the boundaries between groups, ascending by value.
std::vector<Crossing> find_crossings(const Graph& graph, const OpGroups& groups);

/// Keeps what crosses any boundary between groups.
KeptSet keep_crossings(const Graph& graph, const OpGroups& groups);

}  // namespace gradrecomp::plan
