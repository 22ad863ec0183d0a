#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "gradrecomp/version.h"
#include "programs/run_program.h"
#include "programs/temporary_file.h"
#include "support/temporary_folder.h"

namespace gradrecomp::program {
namespace {

TEST(Program, RefusesBadInputWithStatus2) {
  expect_refused("", "gradrecomp: A subcommand is required");
  expect_refused("measure", "is measure, but must be one of batch, bench, plan, train");
  expect_refused("bench --nonsense", "--nonsense");
  expect_refused("bench --model vgg16", "must be one of resnet18, ");
  expect_refused("bench --batch 0",
                 "gradrecomp: --batch is 0, but must be a whole number from 1 to 1048576.\n");
  expect_refused("bench --batch x", "--batch is x, but must be a whole number");
  expect_refused("bench --image-size 8", "--image-size is 8, but must be a whole number from 32");
  expect_refused("bench --sequence 513",
                 "--sequence is 513, but must be a whole number from 1 to 512");
  expect_refused("bench --device tpu", "--device is tpu, but must be one of cpu, cuda.");
  expect_refused("bench --autocast float32", "--autocast is float32, but must be one of bfloat16");
  for (const auto* command : {"bench", "train", "plan"}) {
    expect_refused(std::string(command) + " --offload on --forms lossy_bf16",
                   "--forms is lossy_bf16, but must be exact with --offload on. Leave out one");
  }
  expect_refused("bench --offload maybe", "--offload is maybe, but must be one of on, off.");
  expect_refused("bench --channels-last=3", "channels-last was given a disallowed flag override");
  expect_refused("bench --threads 0", "--threads is 0, but must be a whole number from 1 to 1024.");
  expect_refused("bench --max-overhead 2x", "--max-overhead is 2x, but must be a finite number");
  expect_refused("bench --compare every_0,plain", "arm of --compare is every_0, but must be plain");
  expect_refused("bench --compare plain,,every_1", "arm of --compare is empty, but must be plain");
  expect_refused("bench --data no/such/file", "--data is no/such/file, but must be readable");
  expect_refused("bench --json no/such/folder/x.json", "but must be writable");
  expect_refused("bench --max-overhead 0.1 --policy sqrt_n", "--max-overhead excludes --policy");
  expect_refused("bench --policy every_0", "--policy is every_0, but must be a fixed policy");
  expect_refused("bench --memory-cap 1GiB",
                 "--device is cpu, but must be one with memory of its own for --memory-cap");
  expect_refused("train --steps 1", "--steps is 1");
  expect_refused("bench --brief --full", "--brief excludes --full");
  expect_refused("bench --cost 1", "--cost is 1, but must be one of seconds, flops");
  expect_refused("bench --forms 0", "--forms is 0, but must be one of exact, lossy_bf16");
  expect_refused("bench --cost watts", "--cost is watts, but must be one of seconds, flops");
  for (const std::string rate : {"nan", "-1", "inf", "x"}) {
    expect_refused("train --learning-rate " + rate,
                   "--learning-rate is " + rate + ", but must be a finite number of at least 0");
  }
}

TEST(Program, RefusesBadInputToPlanWithStatus2) {
  const TemporaryFile broken("{\"format\": \"gradrecomp graph\"");
  const auto graph = "plan --graph " + broken.path().string();
  expect_refused(graph, "--graph: " + broken.path().string() + " is broken at byte 3");
  expect_refused(graph + " --batch 2", "--batch excludes --graph");
  expect_refused(graph + " --substitutes off", "excludes --graph");
  expect_refused("plan --graph " GRADRECOMP_NAMELESS_GRAPH " --offload on",
                 "--offload is on, but must be left out, as the step of --graph ran on a device "
                 "that it does not name");
  expect_refused("plan --graph no/such/file", "file is no/such/file, but must be readable");
  expect_refused("plan --model vgg16", "must be one of resnet18, ");
  expect_refused("plan --compare 5%", "--compare is 5%, but must be a fixed policy");
  expect_refused("plan --compare all", "--compare is all");
  expect_refused("plan --compare every_2,,every_3",
                 "--compare is empty, but must be a fixed policy");
  expect_refused("plan --compare every_2,", "--compare is empty");
  expect_refused("plan --max-peak 1GiB --policy sqrt_n", "--max-peak excludes --policy");
  expect_refused("plan --effort -1", "--effort is -1, but must be");
  expect_refused("plan --effort 1e9", "--effort is 1e9, but must be");
  for (const std::string option : {"--out", "--front", "--svg", "--save-graph"}) {
    expect_refused("plan " + option + " no/such/folder/x",
                   option + ": file is no/such/folder/x, but must be writable");
  }
}

TEST(Program, RefusesBadInputToBatchWithStatus2) {
  const std::string batch = "batch --model resnet18 --max-peak 32MiB ";
  expect_refused("batch --model resnet18", "--max-peak is required");
  expect_refused("batch --max-peak 5XB", "--max-peak is 5XB");
  for (const std::string batches : {"4,2", "2,2"}) {
    expect_refused(batch + "--batches " + batches,
                   "--batches is " + batches + ", but must be two batch sizes that rise");
  }
  for (const std::string batches : {"2", "2,", "x,4", "0,4", "2,4,8", "2,70000", "2,4x", "02,4"}) {
    expect_refused(batch + "--batches " + batches, "--batches is " + batches + ", but must be two");
  }
  expect_refused(batch + "--samples-per-second 0", "but must be a finite number above 0");
  expect_refused(batch + "--max-overhead -1", "--max-overhead is -1");
  expect_refused(batch + "--steps 0", "--steps is 0");
  expect_refused(batch + "--json no/such/folder/x", "but must be writable");
  expect_refused(batch + "--batch 4", "--batch");
  expect_refused(batch + "--image-size 8", "must be a whole number from 32");
}

TEST(Program, SaysItsVersionAndItsDefaults) {
  EXPECT_EQ(run_program("--version").text, "gradrecomp " GRADRECOMP_VERSION "\n");
  const Outcome help = run_program("bench --help");
  EXPECT_EQ(help.status, 0);
  for (const auto* part : {"--batch INT=4", "--cost seconds|flops=seconds", "--offload on|off=off",
                           "--device TEXT=cpu", "--grads TEXT=preallocated"}) {
    EXPECT_NE(help.text.find(part), std::string::npos) << part << " in " << help.text;
  }
}

constexpr const char* kBatch =
    "batch --model resnet18 --image-size 64 --threads 1 --steps 1 --cost flops "
    "--data " GRADRECOMP_DIGITS;

/// What a plain step of that batch takes. Convolutions' workspaces differ between processors, so no
/// number of bytes fits a batch everywhere.
std::int64_t plain_peak_bytes(int batch) {
  const TemporaryFile json;
  const Outcome outcome = run_program(
      "bench --model resnet18 --image-size 64 --threads 1 --steps 1 --cost flops --policy keep_all "
      "--data " GRADRECOMP_DIGITS " --batch " +
      std::to_string(batch) + " --json " + json.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  return nlohmann::json::parse(content(json.path())).at(0).at("plain_peak_bytes");
}

TEST(Program, FindsTheLargestBatchAndConfirmsIt) {
  const TemporaryFile json;
  const std::int64_t bytes = plain_peak_bytes(8);
  const Outcome outcome = run_program(
      std::string(kBatch) + " --max-peak " + std::to_string(bytes) + " --max-overhead 0.3 " +
      "--samples-per-second 1 --batches 2,5 --json " + json.path().string());
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto answers = nlohmann::json::parse(content(json.path()))["answers"];
  ASSERT_EQ(answers.size(), 4U);
  for (const auto& answer : answers) {
    ASSERT_FALSE(answer["trials"].empty()) << answer;
    const auto& trial = answer["trials"].back();
    EXPECT_EQ(answer["confirmed_batch"], trial["batch"]) << answer;
    EXPECT_LE(trial["measured_peak_bytes"], bytes) << answer;
    EXPECT_GT(trial["samples_per_second"], 0) << answer;
    if (answer["answer"] == "plain") continue;
    EXPECT_TRUE(trial["bitwise_equal"].get<bool>()) << answer;
    EXPECT_EQ(trial["measured_peak_bytes"], trial["predicted_peak_bytes"]) << answer;
    if (answer["answer"] == "least memory") continue;
    EXPECT_LE(trial["overhead_flops"], 0.3) << answer;
  }
  EXPECT_GT(answers[1]["confirmed_batch"], answers[0]["confirmed_batch"]);
  EXPECT_NE(outcome.text.find("largest batch"), std::string::npos) << outcome.text;
}

TEST(Program, SaysThatNoBatchFits) {
  const Outcome outcome = run_program(std::string(kBatch) + " --max-peak 1KiB");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("largest batch: no batch will do"), std::string::npos)
      << outcome.text;
}

TEST(Program, NamesTheMalformedLine) {
  const TemporaryFile file("1,2,3\n");
  expect_refused("bench --data " + file.path().string(), "line 1 of " + file.path().string());
}

TEST(Program, TakesTheLastValueGiven) {
  expect_refused("bench --batch 4 --batch 0", "--batch is 0");
}

TEST(Program, MeasuresWhatItPredictsInEveryArm) {
  const TemporaryFile json;
  const Outcome outcome =
      run_program(std::string("bench ") + kSmall + " --steps 1 --json " + json.path().string() +
                  " --compare plain,every_1,every_2,sqrt_n,keep_all,drop_all,pointwise_only");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  std::ifstream file(json.path());
  const auto arms = nlohmann::json::parse(file);
  ASSERT_EQ(arms.size(), 8U);
  EXPECT_EQ(arms.front()["arm"], "plain");
  EXPECT_EQ(arms.back()["arm"], "max_overhead");
  for (const auto& arm : arms) {
    EXPECT_TRUE(arm["bitwise_equal"].get<bool>()) << arm;
    EXPECT_EQ(arm["measured_peak_bytes"], arm["predicted_peak_bytes"]) << arm;
    EXPECT_EQ(arm["num_replayed_ops"], arm["predicted_replayed_ops"]) << arm;
    EXPECT_GE(arm["num_compared_steps"].get<int>(), 2) << arm;
    if (arm["arm"] == "plain") continue;
    EXPECT_LE(arm["proven_peak_bytes"], arm["predicted_peak_bytes"]) << arm;
    EXPECT_LE(arm["proven_overhead"], arm["predicted_overhead_seconds"]) << arm;
  }
}

/// Whether this system lets a process count its highest number of pages anew.
bool tells_resident_peaks() { return std::ofstream("/proc/self/clear_refs").is_open(); }

TEST(Program, WritesAllKeysOfAnArm) {
  const TemporaryFile json;
  const Outcome outcome = run_program(std::string("bench ") + kSmall +
                                      " --steps 1 --policy sqrt_n --json " + json.path().string());
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  std::ifstream file(json.path());
  for (const auto& arm : nlohmann::json::parse(file)) {
    for (const auto* key :
         {"arm", "model", "batch", "device", "dtype", "plain_peak_bytes", "measured_peak_bytes",
          "predicted_peak_bytes", "first_step_peak_bytes", "first_step_seconds", "total_peak_bytes",
          "overhead_flops", "overhead_wall", "bitwise_equal", "plan_ms", "num_ops",
          "num_replayed_ops", "tape_bytes"}) {
      EXPECT_TRUE(arm.contains(key)) << key;
    }
    EXPECT_EQ(arm.contains("resident_peak_bytes"), tells_resident_peaks());
  }
}

TEST(Program, TrainsPlainAndPlannedAlike) {
  const Outcome outcome = run_program(std::string("train ") + kSmall + " --steps 3");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(outcome.text.find("DIFFERENT"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("parameters and buffers: bitwise equal"), std::string::npos);
  EXPECT_EQ(outcome.text.find("resident peak:") != std::string::npos, tells_resident_peaks());
  EXPECT_NE(outcome.text.find("layer4.1"), std::string::npos) << "no table of stages";
}

TEST(Program, PlansAProfiledStepAlikeOnAnyMachine) {
  const test::TemporaryFolder folder;
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const std::string budget = " --max-overhead 0.1 --cost flops --front ";
  const Outcome here = run_program(std::string("plan ") + kSmall + " --save-graph " +
                                   file("graph.json") + " --out " + file("here.json") + budget +
                                   file("front.json") + " --svg " + file("front.svg"));
  ASSERT_EQ(here.status, 0) << here.text;
  const Outcome there = run_program("plan --graph " + file("graph.json") + " --out " +
                                    file("there.json") + budget + file("again.json"));
  ASSERT_EQ(there.status, 0) << there.text;
  EXPECT_NE(there.text.find("pointwise_only"), std::string::npos) << there.text;
  EXPECT_EQ(content(file("here.json")), content(file("there.json")));
  EXPECT_EQ(std::system((GRADRECOMP_PYTHON " -c 'import sys, xml.dom.minidom as x; "
                                           "x.parse(sys.argv[1])' " +
                         file("front.svg"))
                            .c_str()),
            0);
}

bool has_kernels(const std::filesystem::path& graph) {
  const auto flags = nlohmann::json::parse(content(graph))["ops"]["by_kernel"];
  return std::any_of(flags.begin(), flags.end(), [](const auto& flag) { return flag == true; });
}

TEST(Program, PlansWithoutSubstitutesWhereTheyAreOff) {
  const test::TemporaryFolder folder;
  for (const std::string substitutes : {"on", "off"}) {
    const auto path = folder / substitutes;
    const Outcome outcome = run_program(std::string("plan ") + kSmall + " --substitutes " +
                                        substitutes + " --save-graph " + path.string());
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(has_kernels(path), substitutes == "on") << substitutes;
  }
}

TEST(Program, FollowsAPlanMadeBefore) {
  const test::TemporaryFolder folder;
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const Outcome planned =
      run_program(std::string("plan ") + kSmall + " --max-overhead 0.1 --cost flops --out " +
                  file("plan.json"));
  ASSERT_EQ(planned.status, 0) << planned.text;
  const std::string under_plan = std::string(kSmall) + " --plan " + file("plan.json");
  const Outcome bench = run_program("bench " + under_plan + " --steps 1 --json " + file("x.json"));
  ASSERT_EQ(bench.status, 0) << bench.text;
  const auto arm = nlohmann::json::parse(content(file("x.json"))).back();
  const auto plan = nlohmann::json::parse(content(file("plan.json")));
  EXPECT_EQ(arm["arm"], "plan");
  EXPECT_TRUE(arm["bitwise_equal"].get<bool>());
  EXPECT_EQ(arm["measured_peak_bytes"], plan["predicted"]["peak_bytes"]);
  EXPECT_EQ(arm["num_replayed_ops"], plan["predicted"]["num_replayed_ops"]);
  EXPECT_EQ(run_program("train " + under_plan + " --steps 2").status, 0);
}

TEST(Program, RefusesAPlanMadeForAnotherModel) {
  const test::TemporaryFolder folder;
  const auto plan = (folder / "plan.json").string();
  const Outcome planned =
      run_program(std::string("plan ") + kSmall + " --policy sqrt_n --out " + plan);
  ASSERT_EQ(planned.status, 0) << planned.text;
  const std::string other =
      " --model resnet18 --image-size 64 --batch 2 --threads 1 --plan " + plan;
  expect_refused("bench" + other, "The signature of --plan is 0x");
  expect_refused("bench" + other, "that of resnet18, batch 2, image 64 x 64");
  expect_refused("train" + other, "The signature of --plan is 0x");
  expect_refused("bench --policy sqrt_n --plan " + plan, "--policy excludes --plan");
  expect_refused("bench --plan no/such/file", "--plan: file is no/such/file");
}

TEST(Program, VerifiesPlansAgainstTheirSteps) {
  const test::TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  const auto step = folder / "step.json";
  const auto files = "--plan " + plan.string() + " --graph " + step.string();
  const Outcome made = run_program(std::string("plan ") + kSmall + " --max-overhead 0.1 --out " +
                                   plan.string() + " --save-graph " + step.string());
  ASSERT_EQ(made.status, 0) << made.text;
  const Outcome good = run_program("verify " + files);
  EXPECT_EQ(good.status, 0) << good.text;
  EXPECT_NE(good.text.find("All of it holds."), std::string::npos) << good.text;

  auto json = nlohmann::json::parse(content(plan));
  json["proven"]["peak_bytes"] = json["proven"]["peak_bytes"].get<std::int64_t>() + 1;
  std::ofstream(plan) << json;
  const Outcome forged = run_program("verify " + files);
  EXPECT_EQ(forged.status, 1);
  EXPECT_NE(forged.text.find("1 of 9 do not hold."), std::string::npos) << forged.text;

  json["signature"] = "0x0123456789abcdef";
  std::ofstream(plan) << json;
  expect_refused("verify " + files, "--plan: plan.signature is 0x0123456789abcdef, but must be ");
  expect_refused("verify --plan " + plan.string(), "--graph is required");
}

TEST(Program, WritesAllKeysOfAFront) {
  const TemporaryFile front;
  const Outcome outcome = run_program(std::string("plan ") + kSmall +
                                      " --compare every_8 --front " + front.path().string());
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto json = nlohmann::json::parse(content(front.path()));
  EXPECT_EQ(json["cost"], "seconds");
  EXPECT_NE(json["model"].get<std::string>().find("resnet18, batch 2"), std::string::npos);
  ASSERT_FALSE(json["points"].empty());
  for (const auto& point : json["points"]) {
    EXPECT_LE(point["peak_bytes"], json["plain_peak_bytes"]) << point;
    EXPECT_LE(point["proven_peak_bytes"], point["peak_bytes"]) << point;
    EXPECT_LE(point["proven_overhead"], point["overhead_seconds"]) << point;
    for (const auto* key : {"overhead_seconds", "overhead_flops", "num_replayed_ops"}) {
      EXPECT_TRUE(point.contains(key)) << key;
    }
  }
  EXPECT_EQ(json["policies"].front()["policy"], "keep_all");
  EXPECT_EQ(json["policies"].back()["policy"], "every_8");
}

}  // namespace
}  // namespace gradrecomp::program
