#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {

/// Which costs a budget speaks of.
enum class CostModel : std::uint8_t { seconds, flops };

/// Which values of one op sequence to keep, and what that is predicted to cost.
struct Plan {
  std::string policy = {};  ///< what made it: "max_overhead", "keep_all", "every_2", ...
  std::vector<std::uint8_t> keep = {};  ///< per value of the graph: 1 keep, 0 drop
  std::uint64_t signature = 0;          ///< of the op sequence it was made for
  CostModel cost = CostModel::seconds;
  bool feasible = true;  ///< false: no plan meets the bound; this is the nearest one
  std::int64_t predicted_peak_bytes = 0;        ///< activation peak of the step under this plan
  std::int64_t predicted_plain_peak_bytes = 0;  ///< activation peak of the plain step
  double predicted_overhead_seconds = 0;        ///< ratio: replay seconds / plain step seconds
  double predicted_overhead_flops = 0;          ///< ratio: replay FLOPs / plain step FLOPs
  std::int64_t num_replayed_ops = 0;            ///< op replays per step, repeats counted
  double planning_seconds = 0;

  /// One line: policy, predicted peak, its share of plain, both overheads.
  [[nodiscard]] std::string brief_report() const;
};

}  // namespace gradrecomp::plan
