#pragma once

#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/kept_set.h"
#include "gradrecomp/plan/policies.h"

namespace gradrecomp::plan {

/// What searches begin with: the sets of fixed policies. Of those that take a number, at most about
/// `most` each.

/// Those that are quickly made: keep_all, drop_all, sqrt_n, pointwise_only, selective and every_k.
std::vector<KeptSet> simple_sets(const Graph& graph, int most);
/// every_k, from one stage a group to all in one.
std::vector<KeptSet> every_k_sets(const Graph& graph, int most);
/// uniform_n and all that chen_greedy chooses from.
std::vector<KeptSet> segment_sets(const Graph& graph, int most);
/// whole_block for falling shares.
std::vector<KeptSet> whole_block_sets(const Graph& graph, int most);
/// revolve_n, and nested.
std::vector<FixedPlan> nested_plans(const Graph& graph, int most);

/// What is left of forward under limits of bytes; see Note [ Eviction ] in eviction_sets.cpp.
std::vector<KeptSet> eviction_sets(const Graph& graph, int most);

/// Up to `most` numbers from 1 to `last`: all of them, or the small ones and then ever fewer.
std::vector<Index> spread_counts(Index last, int most);

}  // namespace gradrecomp::plan
