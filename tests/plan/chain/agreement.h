#pragma once

#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

#include "gradrecomp/plan/simulate.h"
#include "plan/chain/chain_search.h"

namespace gradrecomp::plan {

/// How well the peaks and costs of points agree with the simulator on the whole graph.
struct Agreement {
  int num_plans = 0;
  int num_equal_peaks = 0;
  int num_equal_costs = 0;
  double least_ratio = 1;  ///< of the simulated peak to that of the program
  double most_ratio = 1;

  void add(const Graph& graph, const ReplayCost& replay_cost, const ChainSearch& search,
           const ChainPoint& point) {
    constexpr double kRoundingOfSums = 1e-9;  // as a share of the step
    const KeptSet keep = search.kept(point);
    const std::vector<Index> from = search.cached_from(point);
    Simulator simulator(graph);
    const auto sweeps = from.empty() ? std::vector<Sweep>{} : simulator.defer(keep, from);
    const Simulation result = simulator.run(keep, sweeps);
    const double ratio =
        static_cast<double>(result.peak_bytes) / static_cast<double>(point.peak_bytes);
    ++num_plans;
    num_equal_peaks += result.peak_bytes == point.peak_bytes ? 1 : 0;
    num_equal_costs += std::abs(replay_cost.total(result) - point.cost) < kRoundingOfSums ? 1 : 0;
    least_ratio = std::min(least_ratio, ratio);
    most_ratio = std::max(most_ratio, ratio);
  }

  void print() const {
    std::cout << num_plans << " plans: the peak is the simulator's in " << num_equal_peaks
              << " (else " << least_ratio << " to " << most_ratio << " of it), the cost in "
              << num_equal_costs << '\n';
  }
};

}  // namespace gradrecomp::plan
