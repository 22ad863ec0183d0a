#include "gradrecomp/plan/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/plan/model_graphs.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;
using test::StepBuilder;

/// The names of the ops whose outputs have this constraint.
std::set<std::string> producers(const Graph& graph, const Selection& selection,
                                Constraint constraint) {
  const std::vector<Constraint> constraints = select(graph, selection);
  std::set<std::string> names;
  for (std::size_t v = 0; v < constraints.size(); ++v) {
    if (constraints[v] == constraint) names.insert(graph.ops[graph.values[v].producer].name);
  }
  return names;
}

TEST(Selection, DecidesSavedValuesByStageAndOpPattern) {
  const Graph graph = test::bert_graph(2, 1, 8);
  const auto constraints = select(graph, {.keep_ops = {"*dropout"}, .drop_ops = {"aten::g*u"}});
  int num_kept = 0;
  int num_dropped = 0;
  for (std::size_t v = 0; v < constraints.size(); ++v) {
    num_kept += constraints[v] == Constraint::keep ? 1 : 0;
    num_dropped += constraints[v] == Constraint::drop ? 1 : 0;
    EXPECT_TRUE(constraints[v] == Constraint::open || graph.values[v].saved);
  }
  EXPECT_EQ(num_kept, 4);
  EXPECT_EQ(num_dropped, 2);
}

TEST(Selection, RejectsAContradictionAndAPatternWithoutAMatch) {
  const Graph graph = test::bert_graph(2, 1, 8);
  expect_invalid([&] { select(graph, {.keep_stages = {"layer1"}, .drop_ops = {"*addmm"}}); },
                 "is both keep and drop, but must be one of the two");
  expect_invalid([&] { select(graph, {.keep_ops = {"aten::conv*"}}); },
                 "Selection: keep_ops is \"aten::conv*\", but must be");
}

TEST(Selection, DecidesByLayerType) {
  const Graph resnet = test::resnet_graph({1, 1}, 1);
  const Selection selection{.keep_types = {"Conv2d"}, .drop_types = {"relu", "BatchNorm2d"}};
  using Names = std::set<std::string>;
  EXPECT_EQ(producers(resnet, selection, Constraint::keep), Names{"aten::convolution"});
  EXPECT_EQ(producers(resnet, selection, Constraint::drop),
            (Names{"aten::native_batch_norm", "aten::relu_"}));
  const Graph bert = test::bert_graph(1, 1, 8);
  EXPECT_EQ(producers(bert, {.keep_types = {"attention"}}, Constraint::keep),
            Names{"aten::_scaled_dot_product_flash_attention_for_cpu"});
  EXPECT_EQ(producers(bert, {.keep_types = {"Linear"}}, Constraint::keep), Names{"aten::addmm"});
}

TEST(Selection, LayerTypeCoversTheBiasAndScaleButNotAResidual) {
  StepBuilder step;
  const Index x =
      step.run({.name = "aten::relu", .reads = {step.external()}, .fresh_bytes = {8}}).front();
  Index v = step.run({.name = "aten::mm", .reads = {x}, .fresh_bytes = {8}}).front();
  v = step.run({.name = "aten::add_", .reads = {step.external()}, .overwrites = {v}}).front();
  step.save(v);
  Index w = step.run({.name = "aten::mm", .reads = {x}, .fresh_bytes = {8}}).front();
  w = step.run({.name = "aten::add_", .reads = {v}, .overwrites = {w}}).front();
  step.save(w);
  const auto constraints = select(step.finish(), {.drop_types = {"Linear"}});
  EXPECT_EQ(constraints[v], Constraint::drop);
  EXPECT_EQ(constraints[w], Constraint::open);
}

TEST(Selection, RejectsLayerTypesThatAreUnknownOrDoNotRun) {
  const Graph graph = test::bert_graph(1, 1, 8);
  expect_invalid([&] { select(graph, {.drop_types = {"BatchNorm4d"}}); },
                 "drop_types is \"BatchNorm4d\", but must be one of Attention, AvgPool, BatchNorm");
  expect_invalid([&] { select(graph, {.drop_types = {"MaxPool2d"}}); },
                 "drop_types is \"MaxPool2d\", but must be one that the graph runs");
}

TEST(Selection, EveryLayerTypeIsKnownByItsOwnName) {
  StepBuilder step;
  step.run({.name = "op", .reads = {step.external()}, .fresh_bytes = {8}});
  const Graph graph = step.finish();
  for (const std::string& type : layer_types()) {
    expect_invalid([&] { select(graph, {.keep_types = {type}}); }, "one that the graph runs");
  }
}

}  // namespace
}  // namespace gradrecomp::plan
