#include "profile/times/equal_ops.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace gradrecomp::profile {
namespace {

plan::Op op_of(double replay_seconds, double joined_seconds = 0) {
  return {.name = "aten::relu",
          .inputs = {0},
          .outputs = {1},
          .replay_seconds = replay_seconds,
          .bytes_moved = 16,
          .joined_seconds = joined_seconds};
}

plan::Graph graph_of(std::vector<plan::Op> ops) {
  plan::Graph graph;
  graph.values = {{.bytes = 8}, {.bytes = 8}, {.bytes = 16}};
  graph.ops = std::move(ops);
  return graph;
}

TEST(EqualOpsTest, AnyTwoHaveTheMean) {
  auto graph = graph_of({op_of(1), op_of(3)});
  average_seconds_of_equal_ops(graph);
  EXPECT_EQ(graph.ops[0].replay_seconds, 2);
  EXPECT_EQ(graph.ops[1].replay_seconds, 2);
}

TEST(EqualOpsTest, TheFastestAndTheSlowestQuarterDoNotCount) {
  auto graph = graph_of({op_of(0.1), op_of(3), op_of(1000), op_of(5)});
  average_seconds_of_equal_ops(graph);
  for (const plan::Op& op : graph.ops) EXPECT_EQ(op.replay_seconds, 4);
}

TEST(EqualOpsTest, JoinedSecondsStayAtMostTheOthers) {
  auto graph = graph_of({op_of(1, 1), op_of(9, 0), op_of(4, 2), op_of(2, 2), op_of(7, 6)});
  for (plan::Op& op : graph.ops) op.joins = true;
  average_seconds_of_equal_ops(graph);
  EXPECT_NEAR(graph.ops[0].replay_seconds, 13.0 / 3, 1e-12);  // of 2, 4 and 7
  EXPECT_NEAR(graph.ops[0].joined_seconds, 5.0 / 3, 1e-12);   // of 1, 2 and 2
}

TEST(EqualOpsTest, OpsThatDifferKeepTheirOwn) {
  std::vector<plan::Op> ops(7, op_of(1));
  ops[1].name = "aten::tanh";
  ops[2].flops = 2;
  ops[3].bytes_moved = 32;
  ops[4].inputs = {2};
  ops[5].outputs = {2};
  ops[6].by_kernel = true;
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].replay_seconds = static_cast<double>(i);
  auto graph = graph_of(std::move(ops));
  average_seconds_of_equal_ops(graph);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    EXPECT_EQ(graph.ops[i].replay_seconds, static_cast<double>(i));
  }
}

}  // namespace
}  // namespace gradrecomp::profile
