#include "plan/bounds/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace gradrecomp::plan {
namespace {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

/// A pair of nodes and what it costs to have the first in the subset without the second.
struct Pair {
  Index first = 0;
  Index second = 0;
  double cost = 0;
};

struct Instance {
  std::vector<double> inside = {};
  std::vector<double> outside = {};
  std::vector<Pair> pairs = {};  ///< an infinite cost is a requirement

  [[nodiscard]] Index num_nodes() const { return static_cast<Index>(inside.size()); }

  /// What a subset costs; bit i: node i is in it.
  [[nodiscard]] double cost_of(std::uint32_t subset) const {
    const auto has = [subset](Index node) { return ((subset >> node) & 1) != 0; };
    double cost = 0;
    for (Index i = 0; i < num_nodes(); ++i) cost += has(i) ? inside[i] : outside[i];
    for (const Pair& pair : pairs) cost += has(pair.first) && !has(pair.second) ? pair.cost : 0;
    return cost;
  }

  [[nodiscard]] double least_cost() const {
    double least = kForbidden;
    for (std::uint32_t subset = 0; subset < 1U << num_nodes(); ++subset) {
      least = std::min(least, cost_of(subset));
    }
    return least;
  }

  template <typename Cost>
  [[nodiscard]] MinCut<Cost> cut() const {
    const auto exact = [](double cost) { return static_cast<Cost>(cost); };
    MinCut<Cost> made(num_nodes());
    for (Index i = 0; i < num_nodes(); ++i) made.add_costs(i, exact(inside[i]), exact(outside[i]));
    for (const Pair& pair : pairs) {
      if (pair.cost == kForbidden) made.require(pair.first, pair.second);
      if (pair.cost != kForbidden) made.add_penalty(pair.first, pair.second, exact(pair.cost));
    }
    return made;
  }
};

/// What random instances are drawn from.
struct Drawing {
  int num_pairs = 0;
  int requirement_chance = 0;  ///< of a pair, out of 100
  double unit = 1;             ///< costs are whole multiples of it
};

/// Costs are often 0 and often equal, so that ties and idle arcs occur.
Instance draw(Index num_nodes, const Drawing& drawing, std::mt19937_64& random) {
  const auto below = [&random](int n) { return static_cast<int>(random() % n); };
  Instance made;
  for (Index i = 0; i < num_nodes; ++i) {
    made.inside.push_back(drawing.unit * std::max(0, below(12) - 3));
    made.outside.push_back(drawing.unit * std::max(0, below(12) - 3));
  }
  for (int p = 0; p < drawing.num_pairs; ++p) {
    const bool required = below(100) < drawing.requirement_chance;
    const double cost = required ? kForbidden : drawing.unit * below(9);
    made.pairs.push_back({below(num_nodes), below(num_nodes), cost});
  }
  return made;
}

/// The subset found costs what solve() says, and no subset costs less.
template <typename Cost>
void expect_least(const Instance& instance) {
  MinCut<Cost> cut = instance.cut<Cost>();
  const auto found = static_cast<double>(cut.solve());
  std::uint32_t subset = 0;
  for (Index i = 0; i < instance.num_nodes(); ++i) subset |= cut.inside(i) ? 1U << i : 0U;
  const double least = instance.least_cost();
  EXPECT_NEAR(found, least, 1e-9 * (1 + least));
  EXPECT_NEAR(instance.cost_of(subset), least, 1e-9 * (1 + least));
}

template <typename Cost = double>
void fuzz(Index most_nodes, int requirement_chance, double unit) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const auto num_nodes = static_cast<Index>(1 + random() % most_nodes);
    const auto num_pairs = static_cast<int>(random() % (3 * num_nodes));
    expect_least<Cost>(draw(num_nodes, {num_pairs, requirement_chance, unit}, random));
  }
}

TEST(MinCut, CostsAsLittleAsTheBestSubset) { fuzz(12, 0, 1); }

TEST(MinCut, MeetsRequirementsAtTheLeastCost) {
  fuzz(12, 40, 1);
  fuzz(8, 100, 1);
}

TEST(MinCut, IsRightInWholeNumbers) {
  fuzz<Int128>(12, 0, 1);
  fuzz<Int128>(12, 40, 0x1p90);
}

TEST(MinCut, IsRightForCostsThatNoDoubleHoldsExactly) { fuzz(10, 30, 0.1); }

TEST(MinCut, AddsUpCostsAndPenaltiesGivenInParts) {
  MinCut<double> cut(2);
  for (int i = 0; i < 3; ++i) {
    cut.add_costs(0, 0, 2);  // 6 if 0 is left out
    cut.add_costs(1, 1, 0);  // 3 if 1 is taken
    cut.add_penalty(0, 1, 0.5);
  }
  EXPECT_DOUBLE_EQ(cut.solve(), 1.5);
  EXPECT_TRUE(cut.inside(0));
  EXPECT_FALSE(cut.inside(1));
}

TEST(MinCut, FollowsALongChainOfRequirements) {
  constexpr Index kLength = 2000;
  for (const double gain : {kLength - 0.5, kLength + 0.5}) {
    MinCut<double> cut(kLength);
    cut.add_costs(0, 0, gain);
    for (Index i = 0; i < kLength; ++i) cut.add_costs(i, 1, 0);
    for (Index i = 0; i + 1 < kLength; ++i) cut.require(i, i + 1);
    EXPECT_DOUBLE_EQ(cut.solve(), std::min<double>(gain, kLength));
    EXPECT_EQ(cut.inside(kLength - 1), gain > kLength);
  }
}

TEST(MinCut, OfNoNodesCostsNothing) { EXPECT_EQ(MinCut<double>(0).solve(), 0); }

}  // namespace
}  // namespace gradrecomp::plan
