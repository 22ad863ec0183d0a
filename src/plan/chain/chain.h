#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/blocks/menu.h"

namespace gradrecomp::plan {

/// What a chain does with one of its blocks.
struct BlockChoice {
  const Option* option = nullptr;
  CutFate out = CutFate::kept;
  CutFate in = CutFate::kept;
  /// The number of replays that run through the block before the one that leaves its values behind.
  /// The last to run through is that of the next block.
  int num_passes = 0;
};

/// A plan as a choice for every block, with its peak and cost as far as the menus know them.
struct ChainPoint {
  std::vector<BlockChoice> choices;
  std::int64_t peak_bytes = 0;
  double cost = 0;
};

/// How finely costs are told apart.
struct ChainSize {
  double max_cost = 1;
  int num_buckets = 500;
  int num_open_points = 6;  ///< kept in each bucket while a run of dropped boundaries is open
  /// Plans above this are not wanted; of those within it, only the cheapest is.
  std::int64_t max_peak_bytes = std::numeric_limits<std::int64_t>::max();
  int max_passes = 0;  ///< replays that may run through a block and leave nothing behind, up to 9
};

/// Measured seconds differ from op to op, so that more plans differ in cost than in FLOPs: this
/// many times more buckets separate them.
inline constexpr int kFinerInSeconds = 2;

/// The front of a chain of blocks by rising cost; see Note [ Chains ] in chain.cpp.
std::vector<ChainPoint> solve_chain(std::span<const Menu* const> menus, const ChainSize& size);

/// The points of both fronts that no other one beats, by rising cost.
std::vector<ChainPoint> merged(std::vector<ChainPoint> points,
                               const std::vector<ChainPoint>& others);

/// A peak lower by this part of itself is worth a point of a front.
inline constexpr std::int64_t kLeastStep = 1000;
/// Replaying every op once costs less: a step's forward is less than half of it.
inline constexpr double kMostOnce = 0.5;

/// Calls `visit` for the points that are worth a simulation. As the menus' peaks are nearly the
/// simulator's, those a small step below the last one visited are not worth it, except the last
/// point and the first within `max_peak_bytes`.
template <typename Visit>
void for_each_large_step(std::span<const ChainPoint> points, std::int64_t max_peak_bytes,
                         const Visit& visit) {
  auto last = std::numeric_limits<std::int64_t>::max();
  for (const ChainPoint& point : points) {
    const bool is_large = point.peak_bytes < last - last / kLeastStep;
    const bool enters = last > max_peak_bytes && point.peak_bytes <= max_peak_bytes;
    if (!is_large && !enters && &point != &points.back()) continue;
    visit(point);
    last = point.peak_bytes;
  }
}

}  // namespace gradrecomp::plan
