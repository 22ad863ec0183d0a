#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gradrecomp/plan/simulate.h"
#include "option.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// Measures options of a block by simulating it, for one fate of its cuts.
class OptionMeter {
 public:
  OptionMeter(const BlockGraph& block, const ReplayCost& replay_cost, Simulator& simulator,
              CutFate out, CutFate in)
      : block_(block), replay_cost_(replay_cost), simulator_(simulator), out_(out), in_(in) {}

  /// Measures all members of an option but its tail peak and replays. Bit i of `kept` keeps the
  /// block's i-th choice; the option's own bits are those of them that backward or replays need.
  Option measure(std::uint64_t kept, bool just_in_time = false);

  /// The late peak if no replay of a later block has made what this block's replays reach for.
  std::int64_t tail_peak(const Option& option);

  ReplayList replays(const Option& option);

 private:
  [[nodiscard]] std::vector<Index> cached_from(bool just_in_time) const;
  Simulation simulate(const KeptSet& keep, const std::vector<Index>& from);
  static std::int64_t highest(std::span<const std::int64_t> peaks);
  [[nodiscard]] double pass_cost() const;
  [[nodiscard]] Index reach(Index begin = 0) const;

  const BlockGraph& block_;
  const ReplayCost& replay_cost_;
  Simulator& simulator_;
  CutFate out_;
  CutFate in_;
  Timeline timeline_;
};

}  // namespace gradrecomp::plan
