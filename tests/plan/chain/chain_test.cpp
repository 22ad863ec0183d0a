#include "plan/chain/chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "agreement.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/chain/chain_search.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_chain.h"

namespace gradrecomp::plan {
namespace {

constexpr double kRounding = 1e-9;  // of sums in another order, as a share of the step
constexpr auto kNone = std::numeric_limits<std::int64_t>::max() / 4;

/// Least peaks by cost.
class Stairs {
 public:
  void add(double cost, std::int64_t peak_bytes) {
    if (least_peak(cost) <= peak_bytes) return;
    auto at = peaks_.insert_or_assign(cost, peak_bytes).first;
    for (++at; at != peaks_.end() && at->second >= peak_bytes;) at = peaks_.erase(at);
  }

  [[nodiscard]] std::int64_t least_peak(double cost) const {
    const auto behind = peaks_.upper_bound(cost);
    return behind == peaks_.begin() ? kNone : std::prev(behind)->second;
  }

  [[nodiscard]] double least_cost(std::int64_t peak_bytes) const {
    for (const auto& [cost, peak] : peaks_) {
      if (peak <= peak_bytes) return cost;
    }
    return std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] const std::map<double, std::int64_t>& steps() const { return peaks_; }

 private:
  std::map<double, std::int64_t> peaks_;
};

Stairs stairs_of(const std::vector<ChainPoint>& points) {
  Stairs stairs;
  for (const ChainPoint& point : points) stairs.add(point.cost, point.peak_bytes);
  return stairs;
}

/// A graph with its blocks and small menus for them.
struct Chain {
  Chain(Graph whole, const MenuSize& size)
      : graph(std::move(whole)),
        replay_cost(graph, CostModel::seconds),
        open(graph.values.size(), Constraint::open),
        search(graph, replay_cost, open, Replays::many),
        blocks(make_block_graphs(graph, find_blocks(graph, 128), open, 0)) {
    for (const BlockGraph& block : blocks) menus.push_back(make_menu(block, replay_cost, size));
    for (const Menu& menu : menus) of_blocks.push_back(&menu);
    for (const Menu& menu : menus) dearest += menu.dearest(8);
  }

  Graph graph;
  ReplayCost replay_cost;
  std::vector<Constraint> open;
  ChainSearch search;
  std::vector<BlockGraph> blocks;
  std::vector<Menu> menus;
  std::vector<const Menu*> of_blocks;
  double dearest = 0;
};

/// Every plan of a chain by the rules of Note [ Chains ], from the last block to the first.
class AllPlans {
 public:
  AllPlans(const Chain& chain, bool nested) : chain_(chain), nested_(nested) {
    choices_.resize(chain.menus.size());
    extend(chain.menus.size(), {});
  }

  /// With the choices, peak and cost of each.
  std::vector<ChainPoint> take() && { return std::move(points_); }

 private:
  struct Behind {
    std::int64_t rest = 0;
    std::vector<std::int64_t> since =
        {};  ///< if open: peak from each replay that reaches across on
    double cost = 0;
    CutFate crossing = CutFate::kept;
  };

  void extend(std::size_t k, const Behind& behind) {
    if (k == 0) {
      if (behind.crossing == CutFate::kept) {
        points_.push_back({choices_, behind.rest, behind.cost});
      }
      return;
    }
    for (const CutFate in : {CutFate::kept, CutFate::dropped}) {
      for (const Option& o : chain_.menus[k - 1].of(behind.crossing, in)) {
        if (o.timing.just_in_time && !nested_) continue;
        const auto num_reaches = nested_ ? static_cast<int>(behind.since.size()) : 0;
        for (int passes = 0; passes < std::max(1, num_reaches); ++passes) {
          choices_[k - 1] = {&o, behind.crossing, in, passes};
          extend(k - 1, joined(behind, choices_[k - 1]));
        }
      }
    }
  }

  static Behind joined(const Behind& b, const BlockChoice& choice) {
    const Option& o = *choice.option;
    const std::int64_t r = o.retained_bytes;
    const int passes = choice.num_passes;
    Behind made{
        .rest = b.rest + r, .cost = b.cost + o.cost + passes * o.pass_cost, .crossing = choice.in};
    if (choice.out == CutFate::dropped) {
      const std::int64_t swept = b.since[passes] + r + o.swept_bytes;
      if (choice.in == CutFate::dropped && o.linked) {
        for (int i = 0; i <= passes; ++i) {
          made.since.push_back(std::max({b.since[i] + r, swept, o.early_peak_bytes}));
        }
        made.since.push_back(o.tail_peak_bytes);
        return made;
      }
      made.rest = std::max({made.rest, b.since.front() + r, swept});
    }
    made.rest = std::max(made.rest, o.early_peak_bytes);
    if (choice.in == CutFate::kept) made.rest = std::max(made.rest, o.late_peak_bytes);
    if (choice.in == CutFate::dropped) made.since = {o.late_peak_bytes};
    return made;
  }

  const Chain& chain_;
  bool nested_;
  std::vector<BlockChoice> choices_;
  std::vector<ChainPoint> points_;
};

struct Drawing {
  int num_graphs = 0;
  MenuSize size = {};
};

template <typename Visit>
void for_each_chain(const Drawing& drawing, Visit visit) {
  int num_chains = 0;
  for (int seed = 0; seed < drawing.num_graphs && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Chain chain(test::RandomChain({.num_blocks = 3}, seed).draw(), drawing.size);
    if (chain.blocks.size() < 3 || chain.blocks.size() > 5) continue;
    visit(chain);
    ++num_chains;
  }
  EXPECT_GE(num_chains, drawing.num_graphs / 2);
}

/// What one front has that another lacks: excess of peaks, as a share, at the same cost.
struct Excess {
  int num_points = 0;
  int num_missed = 0;
  double sum = 0;
  double worst = 0;

  void add(const Stairs& best, const Stairs& found, double bucket) {
    for (const auto& [cost, peak] : best.steps()) {
      const auto least = static_cast<double>(found.least_peak(cost + bucket));
      const double excess = std::max(0.0, least / static_cast<double>(peak) - 1);
      ++num_points;
      num_missed += excess > 0 ? 1 : 0;
      sum += excess;
      worst = std::max(worst, excess);
    }
  }

  void print() const {
    std::cout << num_missed << " of " << num_points << " points missed, peaks higher by "
              << 100 * sum / num_points << "% on average, " << 100 * worst << "% at worst\n";
  }
};

struct Comparison {
  Excess chain_program;  ///< over all plans
  Excess all_plans;      ///< over those of the program, which must be among them
};

Comparison compare_with_all_plans(const Drawing& drawing, bool nested) {
  Comparison compared;
  for_each_chain(drawing, [&](const Chain& chain) {
    const Stairs all = stairs_of(AllPlans(chain, nested).take());
    const ChainSize size{.max_cost = chain.dearest + kRounding,
                         .num_buckets = 4000,
                         .num_open_points = 1000,
                         .max_passes = nested ? 8 : 0};
    const double bucket = size.max_cost / (size.num_buckets - 1);
    const Stairs found = stairs_of(solve_chain(chain.of_blocks, size));
    compared.chain_program.add(all, found, bucket);
    compared.all_plans.add(found, all, bucket);
  });
  compared.chain_program.print();
  return compared;
}

TEST(SolveChain, FindsTheFrontOfAllPlansThatReplayOnce) {
  const Drawing drawing{.num_graphs = 300, .size = {.num_options = 6, .num_just_in_time = 0}};
  const Comparison compared = compare_with_all_plans(drawing, false);
  EXPECT_EQ(compared.chain_program.num_missed, 0);
  EXPECT_EQ(compared.all_plans.num_missed, 0);
}

// Of two open plans with equal peaks the one with the lower tail may be the better, which the
// program does not see.
TEST(SolveChain, FindsNearlyTheFrontOfAllNestedPlans) {
  const Drawing drawing{.num_graphs = 200, .size = {.num_options = 3, .num_just_in_time = 2}};
  const Comparison compared = compare_with_all_plans(drawing, true);
  EXPECT_LE(compared.chain_program.num_missed, compared.chain_program.num_points / 50);
  EXPECT_LE(compared.chain_program.sum, 0.003 * compared.chain_program.num_points);
  EXPECT_EQ(compared.all_plans.num_missed, 0);
}

TEST(SolveChain, WithinABoundOfBytesFindsTheSameAsWithoutOne) {
  for_each_chain({.num_graphs = 60, .size = {.num_options = 6}}, [&](const Chain& chain) {
    ChainSize size{.max_cost = chain.dearest + kRounding,
                   .num_buckets = 4000,
                   .num_open_points = 1000,
                   .max_passes = 2};
    const Stairs all = stairs_of(solve_chain(chain.of_blocks, size));
    for (const auto& [cost, peak] : all.steps()) {
      size.max_peak_bytes = peak;
      const Stairs within = stairs_of(solve_chain(chain.of_blocks, size));
      EXPECT_NEAR(within.least_cost(peak), cost, size.max_cost / (size.num_buckets - 1));
    }
  });
}

/// What the planner's buckets cost more than fine ones, as shares of forward.
void expect_bucket_losses(const Graph& graph, double max_cost, double mean_bound) {
  constexpr double kForward = 3;  // a step is three times a forward pass
  const Chain chain(graph, {.num_simulations = 2000, .num_just_in_time = 0});
  max_cost = std::min(max_cost, chain.dearest);
  const Stairs fine = stairs_of(solve_chain(
      chain.of_blocks, {.max_cost = max_cost, .num_buckets = 8000, .num_open_points = 200}));
  const Stairs coarse = stairs_of(solve_chain(
      chain.of_blocks, {.max_cost = max_cost, .num_buckets = 400, .num_open_points = 12}));
  double sum = 0;
  double worst = 0;
  for (const auto& [cost, peak] : fine.steps()) {
    const double loss = kForward * (coarse.least_cost(peak) - cost);
    EXPECT_GE(loss, -kForward * max_cost / 8000 * static_cast<double>(chain.blocks.size()));
    sum += std::max(0.0, loss);
    worst = std::max(worst, loss);
  }
  const double mean = sum / static_cast<double>(fine.steps().size());
  std::cout << "buckets up to " << max_cost << " cost " << 100 * mean << "% of forward, at worst "
            << 100 * worst << "%\n";
  EXPECT_LE(mean, mean_bound);
  EXPECT_LE(worst, 4 * mean_bound);
}

TEST(SolveChain, LosesLittleByBuckets) {
  const std::array graphs{test::resnet_graph({2, 2, 2, 2}, 1), test::bert_graph(6, 1, 64),
                          test::RandomChain({.num_blocks = 15}, 1).draw()};
  for (const Graph& graph : graphs) {
    expect_bucket_losses(graph, 0.06, 0.001);
    expect_bucket_losses(graph, 0.2, 0.004);
  }
}

Chain random_ops_chain(int num_ops, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  test::ChainOptions options;
  for (int i = 0; i < num_ops; ++i) {
    options.bytes.push_back(1 + static_cast<std::int64_t>(random() % 30));
    options.seconds.push_back(1 + static_cast<double>(random() % 9));
  }
  return {test::chain_graph(options), {}};
}

TEST(SolveChain, PeaksOfChainsAreTheSimulators) {
  for (const bool nested : {false, true}) {
    Agreement agreed;
    for (int seed = 0; seed < 50; ++seed) {
      const Chain chain = random_ops_chain(5, seed);
      for (const ChainPoint& point : AllPlans(chain, nested).take())
        agreed.add(chain.graph, chain.replay_cost, chain.search, point);
    }
    agreed.print();
    EXPECT_EQ(agreed.num_equal_costs, agreed.num_plans);
    EXPECT_GE(agreed.num_equal_peaks, nested ? agreed.num_plans * 95 / 100 : agreed.num_plans);
  }
}

TEST(SolveChain, PeaksOfModelsAreNearlyTheSimulators) {
  for (const Graph& graph : {test::resnet_graph({2, 2, 2, 2}, 1), test::bert_graph(4, 1, 64)}) {
    const Chain chain(graph, {});
    for (const int max_passes : {0, 2}) {
      Agreement agreed;
      // In seconds, of which the front has finer buckets: 400 of them.
      const ChainSize size{
          .max_cost = 0.5, .num_buckets = 400 / kFinerInSeconds, .max_passes = max_passes};
      for (const ChainPoint& point : chain.search.front(size))
        agreed.add(chain.graph, chain.replay_cost, chain.search, point);
      agreed.print();
      EXPECT_EQ(agreed.num_equal_costs, agreed.num_plans);
      EXPECT_GE(agreed.num_equal_peaks, agreed.num_plans * 3 / 4);
      EXPECT_LE(agreed.most_ratio, 1.1);
    }
  }
}

// Random blocks save values in ways that windows of backward describe only roughly.
TEST(SolveChain, PeaksOfMostChainsOfRandomBlocksAreTheSimulators) {
  Agreement agreed;
  for_each_chain({.num_graphs = 100, .size = {.num_options = 4}}, [&](const Chain& chain) {
    for (const ChainPoint& point : AllPlans(chain, false).take())
      agreed.add(chain.graph, chain.replay_cost, chain.search, point);
  });
  agreed.print();
  EXPECT_GE(agreed.num_equal_peaks, agreed.num_plans * 3 / 4);
  EXPECT_GE(agreed.num_equal_costs, agreed.num_plans * 9 / 10);
}

}  // namespace
}  // namespace gradrecomp::plan
