#include "gradrecomp/plan/graph_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/plan_file.h"
#include "plan/files/text_file.h"
#include "support/expect_error.h"
#include "support/plan/model_graphs.h"
#include "support/plan/random_graph.h"
#include "support/temporary_folder.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;

SavedGraph small_graph() {
  SavedGraph saved{test::chain_graph({.bytes = {4, 8}, .seconds = {1, 2}}),
                   {"a chain", "float32", "cpu"}};
  saved.graph.signature = 0xf;
  saved.graph.step_seconds = 1.0 / 3;
  return saved;
}

void expect_same(const SavedGraph& a, const SavedGraph& b) {
  EXPECT_EQ(a.origin, b.origin);
  EXPECT_EQ(a.graph.stages, b.graph.stages);
  EXPECT_EQ(a.graph.values, b.graph.values);
  EXPECT_EQ(a.graph.ops, b.graph.ops);
  EXPECT_EQ(a.graph.events, b.graph.events);
  EXPECT_EQ(a.graph.step_seconds, b.graph.step_seconds);
  EXPECT_EQ(a.graph.step_flops, b.graph.step_flops);
  EXPECT_EQ(a.graph.signature, b.graph.signature);
}

/// The text of the small graph with one part of it replaced is refused with `message`.
void expect_refused(const std::string& part, const std::string& by, const std::string& message) {
  auto text = graph_text(small_graph());
  const auto place = text.find(part);
  ASSERT_NE(place, std::string::npos) << part << " in " << text;
  text.replace(place, part.size(), by);
  expect_invalid([&] { parse_graph(text); }, message);
}

TEST(GraphFile, GivesBackEveryBit) {
  expect_same(parse_graph(graph_text(small_graph())), small_graph());
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const SavedGraph saved{test::RandomGraph({.num_ops = 20}, seed).draw()};
    expect_same(parse_graph(graph_text(saved)), saved);
  }
}

TEST(GraphFile, GivesBackWhichValuesMayBeRounded) {
  SavedGraph saved = small_graph();
  saved.graph.values[1].rounds = true;
  saved.graph.values[2].exact = true;
  expect_same(parse_graph(graph_text(saved)), saved);
}

TEST(GraphFile, IsPlannedAsTheGraphItself) {
  const test::TemporaryFolder folder;
  const Graph graph = test::resnet_graph({2, 2}, 1);
  save_graph({graph}, folder / "graph.json");
  const Request request{.max_overhead = 0.05};
  EXPECT_EQ(plan_text({make_plan(load_graph(folder / "graph.json").graph, request)}),
            plan_text({make_plan(graph, request)}));
}

TEST(GraphFile, HasTheSameTextForTheSameGraph) {
  const auto text = graph_text(small_graph());
  EXPECT_EQ(graph_text(parse_graph(text)), text);
}

TEST(GraphFile, HoldsOnlyValidGraphs) {
  const test::TemporaryFolder folder;
  auto saved = small_graph();
  saved.graph.ops[0].flops = std::numeric_limits<double>::quiet_NaN();
  expect_invalid([&] { save_graph(saved, folder / "graph.json"); }, "flops of op 0 (link) is nan");
  EXPECT_EQ(folder.num_files(), 0);
}

TEST(GraphFile, NamesTheFieldAtFault) {
  expect_refused("gradrecomp graph", "gradrecomp plan", "must be \"gradrecomp graph\"");
  expect_refused("\"version\": 1", "\"version\": 2", "but must be at most 1, the newest");
  expect_refused("\"stages\": [", "\"stages\": [7,",
                 "stages[0] of the text is 7, but must be text");
  expect_refused("\"bytes\": [0,4,8]", "\"bytes\": [0,4]",
                 "values.producer of the text is a list of 3, but must be of 2");
  expect_refused("\"bytes\": [0,4,8]", "\"bytes\": [0,4,-8]", "values.bytes[2] of the text is -8");
  expect_refused("\"run_op\"", "\"run\"",
                 "events.kind[0] of the text is \"run\", but must be one of");
  expect_refused("\"step_flops\": ", "\"step_flop\": ", "step_flops of the text is missing");
  expect_refused("\"must_keep\": [false", "\"must_keep\": [0",
                 "values.must_keep[0] of the text is 0");
}

TEST(GraphFile, SaysWhatIsAtOddsWithItself) {
  expect_refused(
      "\"bytes\": [0,4,8]", "\"bytes\": [3,4,8]",
      "parse_graph: the text is at odds with itself (Graph: bytes of value 0 is 3, but "
      "must be 0 as it is external and nothing overwrites it), but must be one profiled");
  expect_refused(
      "\"step_flops\": ", "\"step_flops\": \"infinity\", \"x\": ", "with a member \"x\"");
}

TEST(GraphFile, MustSayOfValuesThatTheyAreSavedWhereEventsDo) {
  auto saved = small_graph();
  saved.graph.values.back().saved = !saved.graph.values.back().saved;
  const std::string is_saved = saved.graph.values.back().saved ? "true" : "false";
  expect_invalid([&] { parse_graph(graph_text(saved)); },
                 "saved of value 2 is " + is_saved + ", but must be ");
}

TEST(GraphFile, HasFewerBytesThanPlannersMayCountTwice) {
  auto saved = small_graph();
  saved.graph.events.insert(saved.graph.events.begin(),
                            {EventKind::outside, -1, 0, std::int64_t{1} << 50});
  expect_invalid([&] { parse_graph(graph_text(saved)); }, "but must be at most 2^50");
  saved.graph.events.front().peak_bytes -= 1000;
  EXPECT_NO_THROW(parse_graph(graph_text(saved)));
}

TEST(GraphFile, EndsWhereItsTextDoes) {
  const std::string text = graph_text(small_graph());
  expect_invalid([&] { parse_graph(text + '\0' + "more"); },
                 "broken at byte " + std::to_string(text.size() + 1));
}

TEST(GraphFile, ChangedAnywhereIsReadOrRefused) {
  const auto text = graph_text(small_graph());
  for (std::size_t place = 0; place < text.size(); ++place) {
    for (const char letter : {'9', '-', ',', ']', '"', '\0'}) {
      auto changed = text;
      changed[place] = letter;
      try {
        parse_graph(changed);
      } catch (const std::invalid_argument& error) {
        EXPECT_NE(std::string(error.what()).find("parse_graph: "), std::string::npos);
      }
    }
  }
}

TEST(GraphFile, FuzzingBeginsWithAGraphThatHasEverything) {
  const std::filesystem::path path = GRADRECOMP_FUZZ_CORPUS "/graph/small.json";
  const auto saved = load_graph(path);
  EXPECT_EQ(graph_text(saved), read_file("the test", path));
  EXPECT_TRUE(std::ranges::any_of(saved.graph.ops, &Op::joins));
  EXPECT_TRUE(std::ranges::any_of(saved.graph.ops, &Op::by_kernel));
  EXPECT_TRUE(std::ranges::any_of(saved.graph.ops, &Op::is_part));
  EXPECT_TRUE(std::ranges::any_of(saved.graph.values, &Value::must_keep));
  EXPECT_TRUE(std::ranges::any_of(saved.graph.values, &Value::snapshot));
}

TEST(GraphFile, CutOffAnywhereIsRefused) {
  const auto text = graph_text(small_graph());
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    expect_invalid([&] { parse_graph(text.substr(0, size)); }, "broken at byte");
  }
}

}  // namespace
}  // namespace gradrecomp::plan
