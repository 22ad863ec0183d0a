#pragma once

#include <limits>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/plan.h"
#include "gradrecomp/plan/simulate.h"

namespace gradrecomp::plan {

/// The fewest seconds that a replay of `op` takes: those among replays of all ops around it.
constexpr double least_replay_seconds(const Op& op) {
  return op.joins ? op.joined_seconds : op.replay_seconds;
}

/// What replays cost as a ratio to the plain step, under one cost model.
///
/// A total adds a millionth of a second ratio, which breaks ties: without it replays that are free
/// in FLOPs would be wasted. Under FLOPs that is the ratio of bytes moved, which like FLOPs does
/// not depend on the machine.
class ReplayCost {
 public:
  ReplayCost(const Graph& graph, CostModel model)
      : model_(model), step_seconds_(graph.step_seconds), step_flops_(graph.step_flops) {
    for (const Op& op : graph.ops) forward_bytes_moved_ += op.bytes_moved;
  }

  [[nodiscard]] CostModel model() const { return model_; }

  /// The ratio a budget speaks of.
  [[nodiscard]] double overhead(const Simulation& result) const {
    return pick(seconds_ratio(result.replay_seconds), flops_ratio(result.replay_flops));
  }
  [[nodiscard]] double overhead(const Op& op) const {
    return pick(seconds_ratio(least_replay_seconds(op)), flops_ratio(op.flops));
  }
  [[nodiscard]] double total(const Simulation& result) const {
    return total(result.replay_seconds, result.replay_flops, result.replay_bytes_moved);
  }
  [[nodiscard]] double total(const Op& op) const {
    return total(least_replay_seconds(op), op.flops, op.bytes_moved);
  }

  /// What replays that leave nothing behind count while plans are looked for.
  ///
  /// In FLOPs most of them are free, and plans would spend any number of them on the last bytes, at
  /// the price of many seconds. So a forward pass's worth of bytes moved counts a little.
  [[nodiscard]] double passing(const Op& op) const { return total(op) + moving(op.bytes_moved); }
  [[nodiscard]] double passing(const Simulation& result) const {
    return total(result) + moving(result.replay_bytes_moved);
  }

  [[nodiscard]] double seconds_ratio(double seconds) const { return ratio(seconds, step_seconds_); }
  [[nodiscard]] double flops_ratio(double flops) const { return ratio(flops, step_flops_); }

 private:
  [[nodiscard]] double moving(double bytes_moved) const {
    constexpr double kForwardPass = 0.003;
    return pick(0, kForwardPass * ratio(bytes_moved, forward_bytes_moved_));
  }
  [[nodiscard]] double pick(double in_seconds, double in_flops) const {
    return model_ == CostModel::seconds ? in_seconds : in_flops;
  }
  [[nodiscard]] double total(double seconds, double flops, double bytes_moved) const {
    const double s = seconds_ratio(seconds);
    const double f = flops_ratio(flops);
    return pick(s, f) + 1e-6 * pick(f, ratio(bytes_moved, forward_bytes_moved_));
  }
  static double ratio(double part, double whole) {
    if (part <= 0) return 0;
    return whole > 0 ? part / whole : std::numeric_limits<double>::infinity();
  }

  CostModel model_;
  double step_seconds_;
  double step_flops_;
  double forward_bytes_moved_ = 0;
};

}  // namespace gradrecomp::plan
