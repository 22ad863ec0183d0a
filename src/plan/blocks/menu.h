#pragma once

#include <cstdint>
#include <vector>

#include "option.h"
#include "plan/simulator/replay_cost.h"

namespace gradrecomp::plan {

/// The Pareto options of one block, for each fate of its two cuts.
struct Menu {
  PerFate<PerFate<std::vector<Option>>> options;
  std::vector<ReplayList> replays;

  [[nodiscard]] std::vector<Option>& of(CutFate out, CutFate in) {
    return options[position(out)][position(in)];
  }
  [[nodiscard]] const std::vector<Option>& of(CutFate out, CutFate in) const {
    return options[position(out)][position(in)];
  }
  /// Calls `visit` for the options of every fate.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& of_out : options) {
      for (const auto& of_in : of_out) {
        for (const Option& option : of_in) visit(option);
      }
    }
  }
  /// The cost of the dearest option when as many replays run through it.
  [[nodiscard]] double dearest(int num_passes) const;
};

/// Bounds of the search for a menu.
struct MenuSize {
  int num_simulations = 1000;  ///< for each fate
  int num_options = 32;        ///< for each fate
  int num_just_in_time = 12;   ///< for each fate, beyond these
  int num_relays = 0;          ///< for each fate that relays, of either kind
  /// What retains least is among the options, however few they are.
  bool keeps_least = false;
};

Menu make_menu(const BlockGraph& block, const ReplayCost& replay_cost, const MenuSize& size);

/// `menu` for another block, equal but for costs. `differences`: how much more each of its ops
/// costs.
Menu recosted(Menu menu, const std::vector<double>& differences);

}  // namespace gradrecomp::plan
