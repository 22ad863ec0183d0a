#include "gradrecomp/plan/plan_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "gradrecomp/plan/make_plan.h"
#include "plan/files/text_file.h"
#include "support/expect_error.h"
#include "support/plan/random_graph.h"
#include "support/temporary_folder.h"

namespace gradrecomp::plan {
namespace {

using test::expect_invalid;

SavedPlan small_plan() {
  return {.plan = {.policy = "max_overhead",
                   .keep = {1, 0, 1, 1, 0},
                   .sweeps = {{1, {0, 3}}, {4, {}}},
                   .offloads = {{0, 1, 4}, {3, 2, -1}},
                   .roundings = {{2, 3}},
                   .signature = 0xfedcba9876543210,
                   .cost = CostModel::flops,
                   .feasible = false,
                   .predicted_peak_bytes = std::numeric_limits<std::int64_t>::max(),
                   .predicted_plain_peak_bytes = 7,
                   .predicted_overhead_seconds = 1.0 / 3,
                   .predicted_overhead_flops = 0.1,
                   .num_replayed_ops = 12,
                   .offloaded_bytes = 99,
                   .predicted_stall = 0.25,
                   .rounded_bytes = 44,
                   .predicted_rounding = 0.03,
                   .proven_peak_bytes = 3,
                   .proven_overhead = 1e-300,
                   .peak_proof = {.moments = {{2, 5}, {7, std::int64_t{1} << 40}},
                                  .price = 0,
                                  .by_ops = true},
                   .overhead_proof = {.moments = {{0, 1}}, .price = 9},
                   .planning_seconds = 5},
          .origin = {"resnet18, \"quoted\"\n\xc3\xa9", "float32", "cpu"}};
}

void expect_same(const SavedPlan& a, const SavedPlan& b) {
  EXPECT_EQ(a.origin, b.origin);
  EXPECT_EQ(a.plan.policy, b.plan.policy);
  EXPECT_EQ(a.plan.keep, b.plan.keep);
  EXPECT_EQ(a.plan.sweeps, b.plan.sweeps);
  EXPECT_EQ(a.plan.offloads, b.plan.offloads);
  EXPECT_EQ(a.plan.roundings, b.plan.roundings);
  EXPECT_EQ(a.plan.signature, b.plan.signature);
  EXPECT_EQ(a.plan.cost, b.plan.cost);
  EXPECT_EQ(a.plan.feasible, b.plan.feasible);
  EXPECT_EQ(a.plan.predicted_peak_bytes, b.plan.predicted_peak_bytes);
  EXPECT_EQ(a.plan.predicted_plain_peak_bytes, b.plan.predicted_plain_peak_bytes);
  EXPECT_EQ(a.plan.predicted_overhead_seconds, b.plan.predicted_overhead_seconds);
  EXPECT_EQ(a.plan.predicted_overhead_flops, b.plan.predicted_overhead_flops);
  EXPECT_EQ(a.plan.num_replayed_ops, b.plan.num_replayed_ops);
  EXPECT_EQ(a.plan.offloaded_bytes, b.plan.offloaded_bytes);
  EXPECT_EQ(a.plan.predicted_stall, b.plan.predicted_stall);
  EXPECT_EQ(a.plan.rounded_bytes, b.plan.rounded_bytes);
  EXPECT_EQ(a.plan.predicted_rounding, b.plan.predicted_rounding);
  EXPECT_EQ(a.plan.proven_peak_bytes, b.plan.proven_peak_bytes);
  EXPECT_EQ(a.plan.proven_overhead, b.plan.proven_overhead);
  EXPECT_EQ(a.plan.peak_proof, b.plan.peak_proof);
  EXPECT_EQ(a.plan.overhead_proof, b.plan.overhead_proof);
}

/// The text of the small plan with one part of it replaced is refused with `message`.
void expect_refused(const std::string& part, const std::string& by, const std::string& message) {
  auto text = plan_text(small_plan());
  const auto place = text.find(part);
  ASSERT_NE(place, std::string::npos) << part;
  text.replace(place, part.size(), by);
  expect_invalid([&] { parse_plan(text); }, message);
}

TEST(PlanFile, GivesBackEveryBit) {
  expect_same(parse_plan(plan_text(small_plan())), small_plan());
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = test::RandomGraph({}, seed).draw();
    const SavedPlan saved{make_plan(graph, {.max_overhead = 0.1})};
    expect_same(parse_plan(plan_text(saved)), saved);
  }
}

TEST(PlanFile, GivesBackInfinity) {
  auto saved = small_plan();
  saved.plan.predicted_overhead_flops = std::numeric_limits<double>::infinity();
  expect_same(parse_plan(plan_text(saved)), saved);
}

TEST(PlanFile, HasTheSameTextForTheSamePlan) {
  auto again = small_plan();
  again.plan.planning_seconds = 77;
  EXPECT_EQ(plan_text(small_plan()), plan_text(again));
  EXPECT_EQ(plan_text(parse_plan(plan_text(again))), plan_text(again));
}

TEST(PlanFile, IsReplacedAsAWhole) {
  const test::TemporaryFolder folder;
  save_plan({}, folder / "plan.json");
  save_plan(small_plan(), folder / "plan.json");
  expect_same(load_plan(folder / "plan.json"), small_plan());
  EXPECT_EQ(folder.num_files(), 1) << "a part is left beside it";
}

TEST(PlanFile, ReplacesWhatALinkPointsTo) {
  const test::TemporaryFolder folder;
  save_plan({}, folder / "plan.json");
  std::filesystem::create_symlink(folder / "plan.json", folder / "link");
  save_plan(small_plan(), folder / "link");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  expect_same(load_plan(folder / "plan.json"), small_plan());
}

TEST(PlanFile, NamesTheFileThatCannotBeReadOrWritten) {
  const test::TemporaryFolder folder;
  expect_invalid([&] { load_plan(folder / "none"); }, "none, but must be readable");
  expect_invalid([&] { load_plan(folder / ""); }, "but must be no folder");
  expect_invalid([&] { save_plan({}, folder / "none/plan.json"); },
                 "none/plan.json, but must be writable");
  std::ofstream(folder / "plan.json") << "{\n";
  expect_invalid([&] { load_plan(folder / "plan.json"); }, "plan.json is broken at byte 3");
}

TEST(PlanFile, IsNotWrittenWhenItCouldNotBeRead) {
  const test::TemporaryFolder folder;
  auto saved = small_plan();
  saved.plan.sweeps[0].cached = {3, 0};
  expect_invalid([&] { save_plan(saved, folder / "plan.json"); },
                 "save_plan: sweeps[0].cached[1] of the plan is 0, but must be above the one");
  EXPECT_EQ(folder.num_files(), 0);
}

TEST(PlanFile, RefusesAnotherFormat) {
  expect_refused("gradrecomp plan", "gradrecomp graph", "must be \"gradrecomp plan\"");
  expect_refused("\"version\": 1", "\"version\": 2",
                 "version of the text is 2, but must be at most");
  expect_refused("\"version\": 1", "\"version\": 0", "version of the text is 0");
  for (const auto* text : {"", "[]", "3", "null", "\xff", "{}", "not JSON"}) {
    expect_invalid([&] { parse_plan(text); }, "parse_plan: ");
  }
  expect_invalid([] { parse_plan(std::string(100000, '[')); }, "nested too deeply");
  std::string crowded = "{";
  for (int i = 0; i < 300; ++i) crowded += '"' + std::to_string(i) + "\":0,";
  expect_invalid([&] { parse_plan(crowded + "\"last\":0}"); }, "too many names");
}

TEST(PlanFile, NamesTheFieldAtFault) {
  expect_refused("\"policy\"", "\"colour\"", "policy of the text is missing, but must be given");
  expect_refused("\"cost\"", "\"more\": 1, \"cost\"", "with a member \"more\", but must be");
  expect_refused("\"cost\"", "\"policy\": \"\", \"cost\"", "given policy twice");
  expect_refused("\"dtype\"", "\"type\"", "origin.dtype of the text is missing");
  expect_refused("0xfed", "fed", "signature of the text is \"fedcba98");
  expect_refused("0xfed", "0x+ed", "must be 0x and 16 hexadecimal digits");
  expect_refused("\"flops\"", "\"bytes\"", "must be one of seconds, flops");
  expect_refused("\"feasible\": false", "\"feasible\": 0", "must be true or false");
  expect_refused("[0,2,3]", "{}", "kept of the text is an object, but must be a list");
}

TEST(PlanFile, NamesTheNumberAtFault) {
  expect_refused("[0,2,3]", "[0,3,3]", "kept[2] of the text is 3, but must be above the one");
  expect_refused("[0,2,3]", "[0,2,5]",
                 "kept[2] of the text is 5, but must be a whole number from 0");
  expect_refused("[0,2,3]", "[0,2.5]", "kept[1] of the text is 2.5");
  expect_refused("[0,2,3]", "[-1]", "kept[0] of the text is -1");
  expect_refused("\"target\":4", "\"target\":1", "sweeps[1].target of the text is 1");
  expect_refused("\"cached\":[0,3]", "\"cached\":[9]", "sweeps[0].cached[0] of the text is 9");
  expect_refused("\"value\":3", "\"value\":0", "offloads[1].value of the text is 0");
  expect_refused("\"leaves_after\":1", "\"leaves_after\":-1",
                 "offloads[0].leaves_after of the text");
  expect_refused("\"returns_at\":4", "\"returns_at\":5", "offloads[0].returns_at of the text is 5");
  expect_refused("\"offloaded_bytes\": 99", "\"offloaded_bytes\": -9",
                 "predicted.offloaded_bytes of the text is -9");
  expect_refused("\"plain_peak_bytes\": 7", "\"plain_peak_bytes\": -7",
                 "predicted.plain_peak_bytes of the text is -7, but must be a whole number of at");
  expect_refused("9223372036854775807", "9223372036854775808", "predicted.peak_bytes of the text");
  expect_refused("\"num_values\": 5", "\"num_values\": 2000000000", "num_values of the text");
  expect_refused("1e-300", "-1e-300", "proven.overhead of the text is -1e-300");
  expect_refused("1e-300", "1e999", "beyond all bounds");
}

TEST(PlanFile, FuzzingBeginsWithAPlanThatHasEverything) {
  const std::filesystem::path path = GRADRECOMP_FUZZ_CORPUS "/plan/small.json";
  const auto saved = load_plan(path);
  EXPECT_EQ(plan_text(saved), read_file("the test", path));
  EXPECT_FALSE(saved.plan.sweeps.empty());
  EXPECT_FALSE(saved.plan.offloads.empty());
}

TEST(PlanFile, CutOffAnywhereIsRefused) {
  const auto text = plan_text(small_plan());
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    expect_invalid([&] { parse_plan(text.substr(0, size)); }, "broken at byte");
  }
}

}  // namespace
}  // namespace gradrecomp::plan
