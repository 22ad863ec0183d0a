#include "plan/search/alike_values.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gradrecomp/plan/graph.h"

namespace gradrecomp::plan {
namespace {

struct Made {
  std::string by;
  std::int64_t bytes = 0;
  bool saved = true;
  double flops = 0;
};

/// A chain of ops, each of which makes one value.
Graph chain(const std::vector<Made>& values) {
  Graph graph;
  for (const Made& made : values) {
    const auto v = static_cast<Index>(graph.values.size());
    Op op{.name = made.by, .outputs = {v}, .flops = made.flops};
    if (v > 0) op.inputs = {v - 1};
    graph.ops.push_back(op);
    graph.values.push_back({.bytes = made.bytes, .producer = v, .saved = made.saved});
  }
  return graph;
}

std::vector<std::size_t> alike_to(const AlikeValues& alike, std::size_t position,
                                  Likeness likeness) {
  const auto positions = alike.alike_to(position, likeness);
  return {positions.begin(), positions.end()};
}

using Positions = std::vector<std::size_t>;

TEST(AlikeValues, AreMadeByOpsOfOneNameInEqualSizes) {
  const Graph graph = chain({{"conv", 64, true, 9},
                             {"relu", 64},
                             {"conv", 64, true, 9},
                             {"relu", 64},
                             {"conv", 32, true, 9},
                             {"conv", 64, true, 4},
                             {"relu", 64, false}});
  const std::vector<Index> all{0, 1, 2, 3, 4, 5, 6};
  const AlikeValues alike(graph, all);
  EXPECT_EQ(alike_to(alike, 2, Likeness::of_equal_size), (Positions{0, 2}));
  EXPECT_EQ(alike_to(alike, 1, Likeness::of_equal_size), (Positions{1, 3}));
  EXPECT_EQ(alike_to(alike, 4, Likeness::of_equal_size), (Positions{4}));
  EXPECT_EQ(alike_to(alike, 6, Likeness::of_equal_size), (Positions{6}));
  EXPECT_TRUE(alike.are_alike(0, 2, Likeness::of_equal_size));
  EXPECT_FALSE(alike.are_alike(0, 5, Likeness::of_equal_size));
}

TEST(AlikeValues, OfAnySizeAreOfLayersThatDifferInWidth) {
  const Graph graph = chain({{"conv", 64, true, 9},
                             {"relu", 64},
                             {"conv", 32, true, 4},
                             {"relu", 32},
                             {"relu", 32, false}});
  const std::vector<Index> all{0, 1, 2, 3, 4};
  const AlikeValues alike(graph, all);
  EXPECT_EQ(alike_to(alike, 0, Likeness::of_any_size), (Positions{0, 2}));
  EXPECT_EQ(alike_to(alike, 3, Likeness::of_any_size), (Positions{1, 3}));
  EXPECT_EQ(alike_to(alike, 4, Likeness::of_any_size), (Positions{4}));
  EXPECT_FALSE(alike.are_alike(0, 1, Likeness::of_any_size));
}

TEST(AlikeValues, AreKnownByTheirPositionsAmongTheValuesGiven) {
  const Graph graph = chain({{"conv", 64}, {"relu", 64}, {"conv", 64}, {"relu", 64}});
  const std::vector<Index> relus{1, 3};
  const AlikeValues alike(graph, relus);
  EXPECT_EQ(alike_to(alike, 0, Likeness::of_equal_size), (Positions{0, 1}));
}

}  // namespace
}  // namespace gradrecomp::plan
