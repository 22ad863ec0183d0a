#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/proof.h"
#include "lower_bound.h"
#include "plan/simulator/replay_cost.h"
#include "proven_line.h"

namespace gradrecomp::plan {

/// Proves how good plans are, by the lines that a search for bounds has found.
///
/// Lifetime: refers to what it is made of.
class Prover {
 public:
  Prover(const Graph& graph, const ReplayCost& replay_cost, const LowerBound& bound)
      : graph_(graph), replay_cost_(replay_cost), bound_(bound) {}

  /// Sets what is proven of `plan`, by its predicted peak and overhead.
  void prove(Plan& plan);

 private:
  struct Proven {
    Proof proof;
    ProvenLine line;
  };

  const Proven& proven(std::size_t line);

  const Graph& graph_;
  const ReplayCost& replay_cost_;
  const LowerBound& bound_;
  std::map<std::size_t, Proven> lines_;  ///< a cut each, so only where one is asked for
};

}  // namespace gradrecomp::plan
