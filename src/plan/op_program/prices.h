#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/graph.h"
#include "gradrecomp/plan/proof.h"
#include "open_step.h"
#include "plan/bounds/int128.h"
#include "tracked_step.h"

namespace gradrecomp::plan {

/// What bytes cost at each moment, and replays: weights and a price as in Note [ Lower bounds ].
///
/// They tell what a step costs at least, by what is known of a partial plan and the least that the
/// ops in front of it add. Any weights will do; those of a good line rule out most partial plans.
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

  /// The last event of those that no moment of a weight lies between.
  [[nodiscard]] Index last_alike(Index event) const { return last_alike_[event]; }

  /// The price of a unit in bytes, if these are held at all moments of the line.
  [[nodiscard]] double bytes_per_unit() const;
  /// The lowest peak of plans of that cost of which none comes to less than `least`.
  [[nodiscard]] std::int64_t peak_bytes(Int128 least, std::int64_t units) const;
  /// What all partial plans may have come to that still lead to a peak and a cost within limits.
  [[nodiscard]] Int128 most(std::int64_t max_peak_bytes, std::int64_t max_units) const;
  /// The least that what enters before `op` adds.
  [[nodiscard]] Int128 least_entering_before(Index op) const { return least_entering_before_[op]; }
  /// The least that ops before `op` add: what enters there, and the replays that `open` asks for.
  [[nodiscard]] Int128 least_before(Index op, const OpenStep& open,
                                    const std::vector<Index>& values) const;

 private:
  [[nodiscard]] Int128 held(const TrackedValue& x, Index from, Index to) const;
  [[nodiscard]] Int128 sum_of_weights() const;
  void find_alike();
  void find_charged();
  void find_least();

  const TrackedStep* step_;
  std::vector<std::int64_t> costs_;
  std::vector<Int128> weights_up_to_;  ///< per event
  std::vector<Index> last_alike_;      ///< per event
  Int128 price_ = 0;
  Int128 of_base_ = 0;
  std::vector<Index> charged_;  ///< per op: the value that a replay of it is charged to, or -1
  std::vector<Int128> least_entering_before_;
};

}  // namespace gradrecomp::plan
