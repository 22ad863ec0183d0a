// What the program writes is there as a whole or not at all, and where it cannot be, it says so.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "programs/run_program.h"
#include "support/temporary_folder.h"

namespace gradrecomp::program {
namespace {

constexpr const char* kPlan = "plan --graph " GRADRECOMP_GRAPH " ";
constexpr const char* kFullDisk = "ulimit -f 0;";  // no file may grow

void expect_failed(const Outcome& outcome, const std::string& message) {
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_NE(outcome.text.find(message), std::string::npos) << outcome.text;
}

/// The program fails to write over a file that `option` names, which stays as it is.
void expect_left_whole(const std::string& command, const std::string& option) {
  const test::TemporaryFolder folder;
  const auto path = (folder / "file").string();
  std::ofstream(path) << "old";
  const std::string arguments = command + " " + option + " ";
  expect_failed(run_program(arguments + path, "2>&1", kFullDisk), option + ": file is " + path);
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(folder.num_files(), 1);
  expect_failed(run_program(arguments + "/dev/full"),
                option + ": file is /dev/full (No space left on device), but must take all");
}

TEST(WrittenFiles, OfPlanAreWholeOrNotThere) {
  for (const auto* option : {"--out", "--front", "--svg", "--save-graph"}) {
    expect_left_whole(kPlan, option);
  }
}

TEST(WrittenFiles, OfBenchAndBatchAreWholeOrNotThere) {
  expect_left_whole(std::string("bench --steps 1 ") + kSmall, "--json");
  expect_left_whole(
      std::string("batch --max-peak 1KiB --model resnet18 --image-size 32 --threads 1"), "--json");
}

TEST(WrittenFiles, MustHaveNamesThatTheFileSystemTakes) {
  const std::string name(300, 'x');
  expect_refused("bench --json " + name, "--json: file is " + name + ", but must be writable");
}

TEST(WrittenFiles, AreNotOpenedBeforeAllInputIsValid) {
  const test::TemporaryFolder folder;
  const auto path = (folder / "file").string();
  std::ofstream(path) << "old";
  expect_refused("bench --data no/such/file --json " + path, "but must be readable");
  expect_refused("bench --image-size 8 --json " + path, "a whole number from 32 to 16384");
  expect_refused("plan --graph no/such/file --out " + path, "but must be readable");
  EXPECT_EQ(content(path), "old");
}

TEST(WrittenFiles, AreEachInAPlaceOfTheirOwn) {
  const test::TemporaryFolder folder;
  const auto path = (folder / "file").string();
  expect_refused(kPlan + std::string("--out ") + path + " --svg " + path,
                 "--svg is " + path + ", but must be another file than that of --out. Pass two");
  expect_refused(kPlan + std::string("--out ") + GRADRECOMP_GRAPH,
                 "another file than that of --graph");
  EXPECT_EQ(folder.num_files(), 0);
}

TEST(WrittenFiles, AreNotThePlanThatIsRead) {
  const test::TemporaryFolder folder;
  const auto path = (folder / "plan.json").string();
  ASSERT_EQ(run_program(kPlan + std::string("--out ") + path, ">/dev/null").status, 0);
  const auto plan = content(path);
  expect_refused("bench --plan " + path + " --json " + path,
                 "--json is " + path + ", but must be another file than that of --plan");
  EXPECT_EQ(content(path), plan);
}

TEST(WrittenFiles, MayBeStandardOutput) {
  const test::TemporaryFolder folder;
  const auto path = (folder / "both").string();
  const Outcome outcome = run_program(kPlan + std::string("--out /dev/stdout"), ">" + path);
  EXPECT_EQ(outcome.status, 0);
  const std::string text = content(path);
  const auto end = text.find("\n}\n");
  ASSERT_NE(end, std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(text.substr(0, end + 2))["format"], "gradrecomp plan");
  EXPECT_NE(text.find("pointwise_only", end), std::string::npos) << "the table follows";
}

TEST(WrittenFiles, AreThereThoughStandardOutputIsFull) {
  const test::TemporaryFolder folder;
  const auto path = (folder / "plan.json").string();
  const auto plan = kPlan + std::string("--out ") + path;
  expect_failed(run_program(plan, "2>&1 >/dev/full"), "gradrecomp: standard output is full");
  EXPECT_NE(content(path).find("gradrecomp plan"), std::string::npos);
}

TEST(StandardOutput, ThatIsFullOrClosedIsAnError) {
  for (const std::string arguments : {"--help", kPlan}) {
    expect_failed(run_program(arguments, "2>&1 >/dev/full"), "gradrecomp: standard output is full");
    expect_failed(run_program(arguments, "2>&1 >&-"), "gradrecomp: standard output is closed");
  }
}

TEST(StandardOutput, AloneIsNeeded) { EXPECT_EQ(run_program(kPlan, "<&- 2>&-").status, 0); }

}  // namespace
}  // namespace gradrecomp::program
