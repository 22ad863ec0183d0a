#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "agreement.h"
#include "gradrecomp/plan/simulate.h"
#include "plan/chain/chain_search.h"
#include "support/plan/model_graphs.h"
#include "support/plan/shape_graphs.h"

namespace gradrecomp::plan {
namespace {

constexpr ChainSize kSize{
    .max_cost = 1, .num_buckets = 400, .num_open_points = 24, .max_passes = 2};

/// Residual blocks of random lengths and widths, each with all earlier ones after one value.
Graph residual_graph(int num_blocks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  test::model_detail::ConvStep net;
  test::model_detail::Map x = net.conv({net.step.external(), 32, 8 + below(8)}, 8 + below(8), 1, 1);
  for (int b = 0; b < num_blocks; ++b) {
    net.step.stage("block" + std::to_string(b));
    test::model_detail::Map y = x;
    for (std::int64_t i = below(3); i >= 0; --i) {
      y = net.conv(y, i > 0 ? 1 + below(20) : x.channels, 1, 1);
      if (below(3) > 0) y = net.norm(y);
      if (i > 0 && below(2) == 0) net.relu(y);
    }
    net.add(y, x);
    net.relu(y);
    x = y;
  }
  net.step.run({.name = "aten::mean", .reads = {x.value}, .fresh_bytes = {8}, .seconds = 1e-9});
  return net.step.finish();
}

bool has_relays(const ChainPoint& point) {
  return std::ranges::any_of(
      point.choices, [](const BlockChoice& choice) { return choice.out == CutFate::relayed; });
}

struct Chain {
  Chain(Graph whole, CostModel cost)
      : graph(std::move(whole)),
        replay_cost(graph, cost),
        open(graph.values.size(), Constraint::open),
        search(graph, replay_cost, open, Replays::many) {}

  Graph graph;
  ReplayCost replay_cost;
  std::vector<Constraint> open;
  ChainSearch search;
};

// What passes through a block while later ones are at work is not counted, and values that a block
// no longer needs are.
TEST(Relays, HaveTheCostsAndNearlyThePeaksThatTheSimulatorHas) {
  Agreement agreed;
  for (int seed = 0; seed < 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chain chain(residual_graph(4 + seed % 9, seed), CostModel::seconds);
    for (const ChainPoint& point : chain.search.front_with_relays(kSize)) {
      if (has_relays(point)) agreed.add(chain.graph, chain.replay_cost, chain.search, point);
    }
  }
  agreed.print();
  EXPECT_GE(agreed.num_plans, 300);
  EXPECT_EQ(agreed.num_equal_costs, agreed.num_plans);
  EXPECT_GE(agreed.num_equal_peaks, agreed.num_plans / 2);
  EXPECT_GE(agreed.least_ratio, 0.9);
  EXPECT_LE(agreed.most_ratio, 1.3);
}

/// The least peak of the points that cost at most `cost`.
std::int64_t least_peak(const std::vector<ChainPoint>& points, double cost) {
  std::int64_t least = points.front().peak_bytes;
  for (const ChainPoint& point : points) {
    if (point.cost <= cost) least = std::min(least, point.peak_bytes);
  }
  return least;
}

// A block's output is made of that of its last convolution, which backward wants as well, without
// any FLOPs.
TEST(Relays, GoBelowPlansWithoutThemWhereLayersAreResidual) {
  Chain chain(test::resnet_graph({3, 8, 36, 3}, 1), CostModel::flops);
  const std::vector<ChainPoint> without = chain.search.front(kSize);
  const std::vector<ChainPoint> with = chain.search.front_with_relays(kSize);
  const auto plain =
      static_cast<double>(Simulator(chain.graph).run(keep_all(chain.graph)).peak_bytes);
  for (const double cost : {0.2, 0.25}) {
    EXPECT_LE(static_cast<double>(least_peak(with, cost)),
              static_cast<double>(least_peak(without, cost)) - 0.005 * plain)
        << cost;
  }
}

TEST(Relays, AreNotLookedForWhereNoneCanBe) {
  const Graph recurrent = test::lstm_graph(40);
  const std::vector<Constraint> open(recurrent.values.size(), Constraint::open);
  const ReplayCost replay_cost(recurrent, CostModel::seconds);
  ChainSearch search(recurrent, replay_cost, open, Replays::many);
  EXPECT_FALSE(search.front(kSize).empty());
  EXPECT_TRUE(search.front_with_relays(kSize).empty());
}

}  // namespace
}  // namespace gradrecomp::plan
