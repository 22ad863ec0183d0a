#pragma once

#include <cstdint>
#include <vector>

#include "gradrecomp/plan/simulate.h"
#include "option.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// Measures options of a block by simulating it, for one fate of its cuts.
class OptionMeter {
 public:
  OptionMeter(const BlockGraph& block, const ReplayCost& replay_cost, CutFate out, CutFate in);

  /// Measures all members of an option but its tail peak and replays. Bit i of `kept` keeps the
  /// block's i-th choice; the option's own bits are those of them that backward or replays need.
  Option measure(std::uint64_t kept, const Timing& timing = {});

  /// The late peak if no replay of a later block has made what this block's replays reach for.
  std::int64_t tail_peak(const Option& option);

  ReplayList replays(const Option& option);

  [[nodiscard]] const BlockGraph& block() const { return block_; }
  [[nodiscard]] CutFate out() const { return out_; }
  [[nodiscard]] CutFate in() const { return in_; }
  /// A bit for each choice that an op with FLOPs makes.
  [[nodiscard]] std::uint64_t choices_with_flops() const;

 private:
  [[nodiscard]] std::vector<Index> cached_from(const Timing& timing) const;
  Simulation simulate(KeptSet keep, const std::vector<Index>& from);
  [[nodiscard]] std::int64_t highest(Index begin, Index end) const;
  [[nodiscard]] double passing_cost(Index begin, Index end) const;
  [[nodiscard]] Index reach(Index begin = 0) const;
  void note_reaches(Option& option) const;

  const BlockGraph& block_;
  const ReplayCost& replay_cost_;
  CutFate out_;
  CutFate in_;
  bool relays_;
  const Graph& graph_;
  Index first_end_;   ///< events after the first replay that a later block sets off
  Index second_end_;  ///< after the second, where the boundary is relayed
  Index sweep_end_;   ///< after all
  std::vector<Index> first_demand_;
  Simulator simulator_;
  Timeline timeline_;
};

}  // namespace gradrecomp::plan
