#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

/// What the most recent step through a region did.
struct StepReport {
  bool profiled = false;       ///< it ran without a plan, and was logged to make one
  bool followed_plan = false;  ///< its whole op sequence was the plan's
  std::string reason = {};     ///< why it followed no plan; empty if it did
  /// It was timed to see what its plan costs. Once a step is not, the plan of its op sequence
  /// stays.
  bool on_trial = false;
  std::int64_t num_ops = 0;  ///< recorded
  /// Calls that ran unrecorded, as some tensor was not plain strided memory or a dispatch mode was
  /// on: all that they read and make is kept.
  std::int64_t num_unrecorded_calls = 0;
  std::int64_t num_replayed_ops = 0;     ///< replays in its backward, once that has ended
  std::int64_t num_substituted_ops = 0;  ///< of these, by kernels in place of their calls
  double replay_seconds = 0;
  std::int64_t offloaded_bytes = 0;  ///< that have left for host memory
  std::int64_t rounded_bytes = 0;    ///< that wait for backward rounded to bfloat16
  /// Bytes held beyond the plan and counted in no predicted peak: copies of lent memory
  /// (from_blob()) that replays still need, or results computed from it, and values that stayed
  /// because there was no memory for their copies.
  std::int64_t unplanned_bytes = 0;
  /// About what the recording adds to the heap between forward and backward, beside the memory of
  /// tensors: ops, their arguments and what autograd holds in place of tensors. No peak counts it.
  std::int64_t tape_bytes = 0;
};

/// What one stage holds and costs, in the plain step and under a plan.
struct StageRow {
  std::string name;
  std::int64_t saved_bytes = 0;   ///< that autograd saves in the plain step, each value once
  std::int64_t kept_bytes = 0;    ///< of all its values that the plan keeps
  std::int64_t output_bytes = 0;  ///< of its values that later stages read
  double forward_flops = 0;
  double forward_seconds = 0;
  double replay_seconds = 0;  ///< of running all its ops once more
  bool operator==(const StageRow&) const = default;
};

/// One row per stage, in the order the stages first ran.
GRADRECOMP_API std::vector<StageRow> stage_rows(const plan::Graph& graph, const plan::Plan& plan);

/// The rows as a table with a closing total.
GRADRECOMP_API std::string stage_table(const plan::Graph& graph, const plan::Plan& plan);

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
