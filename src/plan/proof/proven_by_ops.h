#pragma once

#include <cstdint>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "plan/op_program/op_program.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// What a program over the ops of a step proves, led by the line of a proof.
class ProvenByOps {
 public:
  ProvenByOps(const Graph& graph, const ReplayCost& replay_cost, const Proof& proof);

  /// Whether it proves that no plan of at most this overhead has a lower peak.
  [[nodiscard]] bool is_proven_peak(std::int64_t peak_bytes, double overhead);
  /// Whether it proves that no plan of at most this peak has a lower overhead.
  [[nodiscard]] bool is_proven_overhead(double overhead, std::int64_t peak_bytes);

  /// From now on all questions together may take no more than one does.
  void share_work() { shares_work_ = true; }
  /// From now on questions are asked without prices, which prove no more than a fit has found.
  void go_on_by_loads() { by_loads_ = true; }

 private:
  bool denies(const PlanLimits& limits);
  bool denies_by_prices(const PlanLimits& limits);
  bool denies_by_loads(const PlanLimits& limits);

  OpProgram program_;
  std::int64_t work_left_;
  bool shares_work_ = false;
  bool by_loads_ = false;
};

}  // namespace gradrecomp::plan
