#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/check/check.h"
#include "fuzz/hostile/hooks.h"
#include "fuzz/hostile/statics.h"
#include "fuzz/program/machine.h"
#include "fuzz/program/program.h"
#include "tape/own_work.h"

namespace gradrecomp::fuzzing {
namespace {

std::string told(const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) text += finding.check + ": " + finding.what + "\n";
  return text;
}

// An operator that gives something else when GradRecomp runs it than when the program does.
torch::Tensor lie(const torch::Tensor& x) { return x * (tape::in_own_work() ? 3.0 : 2.0); }

TORCH_LIBRARY(gradrecomp_fuzz_test, library) {
  library.def("lie(Tensor x) -> Tensor");
  library.impl("lie", c10::DispatchKey::CPU, &lie);
}

// Whose gradient is what the operator says of `subject`.
void multiply_by_a_lie_about(const torch::Tensor& subject, Machine& machine) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gradrecomp_fuzz_test::lie", "")
                             .typed<torch::Tensor(const torch::Tensor&)>();
  const auto answer = op.call(subject);
  machine.push(machine.world().weight * answer);
}

void multiply_by_a_lie(Machine& machine) {
  multiply_by_a_lie_about(machine.world().weight.detach(), machine);
}

void multiply_by_a_lie_about_nothing(Machine& machine) {
  multiply_by_a_lie_about(torch::empty_like(machine.world().weight.detach()), machine);
}

Program program_of(const Operation& operation) {
  Program program = generate(1);
  program.steps = {{&operation, 1}};
  program.throws = false;
  return program;
}

const Operation lying = {"lie", 1, multiply_by_a_lie};
const Operation lying_about_nothing = {"lie about nothing", 1, multiply_by_a_lie_about_nothing};

Program lying_program() { return program_of(lying); }

TEST(Fuzz, RandomProgramsAreBitIdenticalUnderGradRecomp) {
  constexpr std::uint64_t kPrograms = 300;
  for (std::uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const Program program = generate(seed);
    const auto [findings, reads_unwritten, plain_differs] = check(program);
    EXPECT_TRUE(findings.empty()) << "seed " << seed << "\n" << told(findings) << listing(program);
    EXPECT_FALSE(reads_unwritten || plain_differs) << "seed " << seed << "\n" << listing(program);
  }
}

// Before the first region of the process.
const bool installed = [] {
  install_saving_hooks();
  return true;
}();

TEST(Fuzz, HostileProgramsAreBitIdenticalUnderGradRecompOrRefused) {
  ASSERT_TRUE(installed);
  constexpr std::uint64_t kPrograms = 250;
  for (std::uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const Program program = generate_hostile(seed);
    const auto [findings, reads_unwritten, plain_differs] = check(program);
    EXPECT_TRUE(findings.empty()) << "seed " << seed << "\n" << told(findings) << listing(program);
    EXPECT_FALSE(reads_unwritten || plain_differs) << "seed " << seed << "\n" << listing(program);
    leave_to_the_end(program);
  }
}

void expect_no_findings(const Program& program) {
  const auto findings = check(program).findings;
  EXPECT_TRUE(findings.empty()) << "seed " << program.seed << "\n"
                                << told(findings) << listing(program);
}

TEST(Fuzz, ProgramsThatFailedOnceAreRight) {
  for (const std::uint64_t seed :
       {266000205, 266001463, 266100189, 266100473, 266101188, 267100919}) {
    expect_no_findings(generate(seed));
  }
}

TEST(Fuzz, HostileProgramsThatFailedOnceAreRight) {
  ASSERT_TRUE(installed);
  for (const std::uint64_t seed : {2012058, 5000714, 5102516, 7003118, 7004722, 20002296, 50015602,
                                   90008708, 266000066, 266300028}) {
    expect_no_findings(generate_hostile(seed));
  }
}

TEST(Fuzz, GenerationIsTheSameForTheSameSeed) {
  for (const auto& make : {generate, generate_hostile}) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      const Program program = make(seed);
      EXPECT_EQ(program, make(seed)) << "seed " << seed;
      EXPECT_EQ(listing(program), listing(make(seed))) << "seed " << seed;
    }
    EXPECT_NE(make(1), make(2));
  }
  EXPECT_NE(generate(1), generate_hostile(1));
}

TEST(Fuzz, EveryOperationIsDrawn) {
  std::vector<const Operation*> drawn;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    for (const auto& program : {generate(seed), generate_hostile(seed)}) {
      for (const Step& step : program.steps) drawn.push_back(step.operation);
    }
  }
  for (const auto& all : {operations(), hostile_operations()}) {
    for (const Operation& operation : all) {
      const auto has_its_name = [&](const Operation* one) { return one->name == operation.name; };
      EXPECT_TRUE(std::any_of(drawn.begin(), drawn.end(), has_its_name)) << operation.name;
    }
  }
}

TEST(Fuzz, FindsAnOperatorWhoseReplayDiffers) {
  const auto findings = check(lying_program(), {.verify = Verify::never}).findings;
  const auto wrong_gradient = [](const Finding& finding) {
    return finding.check == "dropped" && finding.what.starts_with("differs in gradient of weight");
  };
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), wrong_gradient)) << told(findings);
}

TEST(Fuzz, PassesOverWhatReadsMemoryThatNobodyHasWritten) {
  const auto result = check(program_of(lying_about_nothing), {.verify = Verify::never});
  EXPECT_TRUE(result.reads_unwritten);
  EXPECT_TRUE(result.findings.empty()) << told(result.findings);
}

TEST(Fuzz, FindsWhatVerificationKept) {
  const auto findings = check(lying_program()).findings;
  const auto distrusted = [](const Finding& finding) {
    return finding.check == "verification" && finding.what.find("lie") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), distrusted)) << told(findings);
}

TEST(Fuzz, ShrinksToTheStepThatFails) {
  Program program = generate(3);
  program.throws = false;
  program.steps.resize(std::min<std::size_t>(program.steps.size(), 6));
  program.steps.push_back(lying_program().steps.front());
  const auto shortest = shrink(program, "dropped", {.verify = Verify::never});
  EXPECT_EQ(shortest.steps, lying_program().steps) << listing(shortest);
}

}  // namespace
}  // namespace gradrecomp::fuzzing
