// What is written of several devices: in graph files, plan files and reports.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/plan/make_plan.h"
#include "gradrecomp/plan/plan_file.h"
#include "gradrecomp/plan/predict.h"
#include "plan/files/text_file.h"
#include "plan/graph/as_one.h"
#include "plan/graph/two_halves.h"
#include "support/expect_error.h"
#include "support/plan/step_builder.h"
#include "support/plan/two_devices.h"

namespace gradrecomp::plan {
namespace {

using test::as_one;
using test::expect_invalid;
using test::random_two_devices;
using test::two_halves;

constexpr std::uint64_t kNumSeeds = 40;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Devices, GraphFileGivesBackEveryBit) {
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    const Graph graph = random_two_devices(seed);
    const Graph read = parse_graph(graph_text({graph})).graph;
    EXPECT_EQ(read.devices, graph.devices);
    EXPECT_EQ(read.values, graph.values);
    EXPECT_EQ(read.ops, graph.ops);
    EXPECT_EQ(read.events, graph.events);
  }
}

TEST(Devices, GraphFileOfOneDeviceSaysNothingOfDevices) {
  const auto text = graph_text({test::chain_graph({.bytes = {4, 8}, .seconds = {1, 2}})});
  EXPECT_FALSE(contains(text, "\"device\": ["));
  EXPECT_FALSE(contains(text, "\"devices\""));
  EXPECT_FALSE(contains(text, "further_transient_bytes"));
}

TEST(Devices, GraphFileThatLeavesADeviceOutIsRefused) {
  auto text = graph_text({two_halves(4, 8)});
  const auto replaced = [&](const std::string& part, const std::string& by) {
    auto changed = text;
    changed.replace(changed.find(part), part.size(), by);
    return changed;
  };
  expect_invalid([&] { parse_graph(replaced("\"device\": [", "\"place\": [")); },
                 "values.device of the text is missing");
  expect_invalid(
      [&] {
        parse_graph(replaced("\"devices\": [\"cuda:0\",\"cpu\"]", "\"devices\": [\"cuda:0\",7]"));
      },
      "devices[1] of the text is 7, but must be text");
}

TEST(Devices, PlanFileGivesBackPeaksOfEach) {
  const Graph graph = two_halves(4, 8);
  const Plan plan = make_plan(graph, {.max_overhead = 0.1});
  EXPECT_EQ(parse_plan(plan_text({plan})).plan.devices, plan.devices);
  EXPECT_FALSE(
      contains(plan_text({make_plan(as_one(graph), {.max_overhead = 0.1})}), "\"devices\""));
}

TEST(Devices, FuzzingBeginsWithAStepOnTwo) {
  const std::filesystem::path corpus = GRADRECOMP_FUZZ_CORPUS;
  const auto graph = load_graph(corpus / "graph/two_devices.json");
  EXPECT_EQ(graph_text(graph), read_file("the test", corpus / "graph/two_devices.json"));
  EXPECT_EQ(num_devices(graph.graph), 2);
  const auto plan = load_plan(corpus / "plan/two_devices.json");
  EXPECT_EQ(plan_text(plan), read_file("the test", corpus / "plan/two_devices.json"));
  EXPECT_EQ(predict(graph.graph, plan.plan).devices, plan.plan.devices);
}

TEST(Devices, ReportNamesEach) {
  const Plan plan{.policy = "keep_all",
                  .predicted_peak_bytes = 1 << 20,
                  .predicted_plain_peak_bytes = 2 << 20,
                  .devices = {{"cuda:0", 1 << 20, 2 << 20}, {"cpu", 512, 512}}};
  EXPECT_TRUE(contains(plan.brief_report(),
                       "predicted peak 1.0 MiB (50.0% of plain) on cuda:0, 512 B (100.0% of "
                       "plain) on cpu, overhead"))
      << plan.brief_report();
}

}  // namespace
}  // namespace gradrecomp::plan
