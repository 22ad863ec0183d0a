#pragma once

#include <cstdint>
#include <optional>

#include "gradrecomp/export.h"
#include "gradrecomp/plan/batch_fit.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {

/// What a batch size and its plan have to stay within.
struct BatchRequest {
  std::int64_t max_peak_bytes = 0;  ///< of activations
  /// Ratio of replays to the plain step at the same batch; unset: as many as it takes. Around 0.3
  /// every value is replayed once, and more buys little.
  std::optional<double> max_overhead = std::nullopt;
  CostModel cost = CostModel::seconds;  ///< what max_overhead counts
  Selection selection = {};             ///< values decided beforehand
  Index max_batch = 65536;
  bool operator==(const BatchRequest&) const = default;
};

/// A batch size and the plan to run it under.
struct BatchPlan {
  Index batch = 0;  ///< in samples; 0: not even one sample has a plan, this is the nearest one
  Plan plan = {};   ///< with signature 0 unless the batch was recorded; see BatchFit::graph_at
  double predicted_samples_per_second = 0;  ///< of forward, backward and replays
};

/// Finds the largest batch that has a plan within the request, and for it the plan that replays
/// least.
///
/// Guarantees: the plan is within the request as predicted, or `batch` is 0; deterministic.
/// Complexity: make_plan() about 6 times, at most 15, as the peak is nearly a line in the batch.
/// Throws:     std::invalid_argument if max_peak_bytes, max_overhead or max_batch is not valid.
GRADRECOMP_API BatchPlan largest_batch(const BatchFit& fit, const BatchRequest& request);

/// Finds the batch and plan of the most samples per second within the request.
///
/// Larger batches spread the fixed part of a step over more samples, until replays cost more than
/// that gains. Batches below the smaller recorded one are used only if no larger one has a plan.
/// Guarantees: not slower than the largest batch that needs no plan; deterministic. The best batch
///             is found by a climb, so another may be slightly better where plans come in jumps.
/// Complexity: make_plan() about 8 times, at most 14.
/// Throws:     as largest_batch() does.
GRADRECOMP_API BatchPlan best_throughput(const BatchFit& fit, const BatchRequest& request);

/// What least_memory is asked for.
struct ThroughputRequest {
  double min_samples_per_second = 0;
  Selection selection = {};  ///< values decided beforehand
  Index max_batch = 65536;
  bool operator==(const ThroughputRequest&) const = default;
};

/// Finds the batch and plan of least activation peak that reach a throughput.
///
/// Guarantees: the plan reaches it as predicted, or `batch` is 0 and the plan is that of the
///             largest batch, which comes nearest; deterministic. Found by a climb too.
/// Complexity: make_plan() about 8 times, at most 14.
/// Throws:     std::invalid_argument if min_samples_per_second is not above 0 or max_batch is
///             below 1.
GRADRECOMP_API BatchPlan least_memory(const BatchFit& fit, const ThroughputRequest& request);

}  // namespace gradrecomp::plan
