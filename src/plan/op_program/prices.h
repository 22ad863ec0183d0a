#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/proof.h"
#include "plan/bounds/int128.h"
#include "tracked_step.h"

namespace gradrecomp::plan {

/// What bytes cost at each moment, and replays: weights and a price as in Note [ Lower bounds ].
///
/// Any weights will do; those of a good line rule out most partial plans.
class Prices {
 public:
  /// `costs`: of the ops, in units.
  Prices(const TrackedStep& step, std::vector<std::int64_t> costs, const Proof& line);

  [[nodiscard]] std::int64_t cost(Index op) const { return costs_[op]; }
  [[nodiscard]] Int128 of_replays(std::int64_t units) const { return price_ * units; }
  [[nodiscard]] Int128 of_kept(const TrackedValue& x) const;
  [[nodiscard]] Int128 of_made(const TrackedValue& x) const;
  /// Of what a visit at `event` has left behind, up to `end`.
  [[nodiscard]] Int128 of_left(const TrackedValue& x, Index event, Index end) const;

  /// Whether bytes cost anything after event `from` and up to event `to`.
  [[nodiscard]] bool weigh_between(Index from, Index to) const {
    return to > from && weights_up_to_[to] > weights_up_to_[from];
  }
  /// The last event of those that no moment of a weight lies between.
  [[nodiscard]] Index last_alike(Index event) const { return last_alike_[event]; }

  /// The price of a unit in bytes, if these are held at all moments of the line.
  [[nodiscard]] double bytes_per_unit() const;
  /// The lowest peak of plans of that cost of which none comes to less than `least`.
  [[nodiscard]] std::int64_t peak_bytes(Int128 least, std::int64_t units) const;
  /// What all partial plans may have come to that still lead to a peak and a cost within limits.
  [[nodiscard]] Int128 most(std::int64_t max_peak_bytes, std::int64_t max_units) const;

 private:
  [[nodiscard]] Int128 held(const TrackedValue& x, Index from, Index to) const;
  [[nodiscard]] Int128 sum_of_weights() const;
  void find_alike();

  std::vector<std::int64_t> costs_;
  std::vector<Int128> weights_up_to_;  ///< per event
  std::vector<Index> last_alike_;      ///< per event
  Int128 price_ = 0;
  Int128 of_base_ = 0;
};

}  // namespace gradrecomp::plan
