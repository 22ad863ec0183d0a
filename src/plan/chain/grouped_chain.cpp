#include "grouped_chain.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>

#include "block_group.h"
#include "partial_plan.h"
#include "relaxed_costs.h"

// Note [ Groups of blocks ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// The program of a chain takes blocks times buckets of costs, and a long chain needs many of both.
// So its blocks are first put together in groups of consecutive ones. A group whose ends are kept
// is a block: what it can do is a menu of costs, retained bytes and peaks. The chain of the groups
// is then solved as any other. What is lost are runs of dropped boundaries across the end of a
// group, so groups end where keeping the boundary takes the fewest bytes.
//
// Buckets over the whole budget would be too coarse for a group. Most groups spend about what they
// would if options could be taken in parts, so a group's buckets end a little above that. Where
// many replays may run through a block, budgets are large and long runs pay: there the chain is
// solved once more, in about as many groups as each has blocks, and a group may spend all it can.

namespace gradrecomp::plan {
namespace {

constexpr int kPerGroup = 24;
constexpr int kBucketsOfAll = 400'000;  // blocks times buckets
constexpr int kFewestBuckets = 112;
constexpr int kMostBuckets = 256;
constexpr int kFewestBucketsOfGroups = 400;
constexpr int kBucketsPerGroup = 3;  // of the chain of groups
constexpr int kNumOpenPoints = 6;
constexpr double kShares = 1.3;       // of what a group spends in parts
constexpr double kLeastShare = 0.25;  // of the mean
constexpr double kAnyShare = 1e9;

/// The bytes that a block retains more, at least, where what it hands on is kept.
std::int64_t boundary_bytes(const Menu& menu) {
  const auto least = [&](CutFate out) {
    std::int64_t bytes = kNoPeak;
    for (const CutFate in : kCutFates) {
      for (const Option& option : menu.of(out, in)) bytes = std::min(bytes, option.retained_bytes);
    }
    return bytes;
  };
  const std::int64_t dropped = least(CutFate::dropped);
  return dropped == kNoPeak ? 0 : least(CutFate::kept) - dropped;
}

/// Where the group that begins at `begin` ends: near `per_group` blocks on, where its end is kept
/// for the fewest bytes.
std::size_t group_end(std::span<const Menu* const> menus, std::size_t begin,
                      std::size_t per_group) {
  const std::size_t first = begin + per_group * 3 / 4;
  const std::size_t last = begin + per_group * 5 / 4;
  if (last >= menus.size()) return menus.size();
  const auto bytes = [](const Menu* menu) { return boundary_bytes(*menu); };
  const auto may_be_last = menus.subspan(first, last - first);
  const auto best = std::ranges::min_element(may_be_last, {}, bytes) - may_be_last.begin();
  return first + static_cast<std::size_t>(best) + 1;
}

/// A point of the chain of groups as one of the chain of their blocks.
ChainPoint ungrouped(const ChainPoint& point, const std::deque<BlockGroup>& groups) {
  ChainPoint whole{{}, point.peak_bytes, point.cost};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const ChainPoint& part = groups[g].points[point.choices[g].option->replays];
    whole.choices.insert(whole.choices.end(), part.choices.begin(), part.choices.end());
  }
  return whole;
}

/// A long chain, to be solved in groups.
class GroupedChain {
 public:
  GroupedChain(std::span<const Menu* const> menus, const ChainSize& size)
      : menus_(menus), size_(size), relaxed_costs_(relaxed_costs(menus, size.max_cost)) {}

  [[nodiscard]] std::vector<ChainPoint> solve(std::size_t per_group, const ChainSize& of_group,
                                              double shares) const {
    std::deque<BlockGroup> groups;
    std::vector<const Menu*> menus_of_groups;
    for (std::size_t begin = 0; begin < menus_.size();) {
      const std::size_t length = group_end(menus_, begin, per_group) - begin;
      ChainSize size = of_group;
      size.max_cost = std::min(size.max_cost, most_cost(begin, length, shares));
      groups.push_back(make_group(menus_.subspan(begin, length), size));
      menus_of_groups.push_back(&groups.back().menu);
      begin += length;
    }
    ChainSize of_all = size_;
    of_all.max_passes = 0;
    of_all.num_buckets =
        std::max(kFewestBucketsOfGroups, kBucketsPerGroup * static_cast<int>(groups.size()));
    std::vector<ChainPoint> points;
    for_each_large_step(
        solve_chain(menus_of_groups, of_all), size_.max_peak_bytes,
        [&](const ChainPoint& point) { points.push_back(ungrouped(point, groups)); });
    return points;
  }

 private:
  /// More than a group can spend, or than the best plans would have it spend.
  [[nodiscard]] double most_cost(std::size_t begin, std::size_t length, double shares) const {
    double dearest = 0;
    double share = kLeastShare * size_.max_cost * static_cast<double>(length) /
                   static_cast<double>(menus_.size());
    for (std::size_t k = begin; k < begin + length; ++k) {
      dearest += menus_[k]->dearest(size_.max_passes);
      share += relaxed_costs_[k];
    }
    return std::max(std::min(dearest, shares * share), 1e-12);
  }

  std::span<const Menu* const> menus_;
  const ChainSize& size_;
  std::vector<double> relaxed_costs_;
};

}  // namespace

std::vector<ChainPoint> solve_in_groups(std::span<const Menu* const> menus, const ChainSize& size) {
  const GroupedChain chain(menus, size);
  const auto num_blocks = static_cast<int>(menus.size());
  ChainSize of_group = size;
  of_group.num_open_points = kNumOpenPoints;
  of_group.max_peak_bytes = std::numeric_limits<std::int64_t>::max();
  of_group.num_buckets = std::clamp(kBucketsOfAll / num_blocks, kFewestBuckets, kMostBuckets);
  of_group.max_passes = 0;
  std::vector<ChainPoint> points = chain.solve(kPerGroup, of_group, kShares);
  if (size.max_passes <= 1) return points;
  of_group.max_passes = size.max_passes;
  const auto per_group = std::lround(std::sqrt(num_blocks));
  return merged(std::move(points), chain.solve(per_group, of_group, kAnyShare));
}

}  // namespace gradrecomp::plan
