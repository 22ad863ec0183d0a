#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

#include "check.h"
#include "gradrecomp/tape/observer.h"
#include "machine.h"
#include "program.h"

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

void multiply_by_a_lie(Machine& machine) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("gradrecomp_fuzz_test::lie", "")
                             .typed<torch::Tensor(const torch::Tensor&)>();
  const auto x = machine.world().weight;
  const auto answer = op.call(x.detach());
  machine.push(x * answer);  // whose gradient is the answer
}

Program lying_program() {
  static const Operation lying = {"lie", 1, multiply_by_a_lie};
  Program program = generate(1);
  program.steps = {{&lying, 1}};
  program.throws = false;
  return program;
}

TEST(Fuzz, RandomProgramsAreBitIdenticalUnderGradRecomp) {
  constexpr std::uint64_t kPrograms = 300;
  for (std::uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const Program program = generate(seed);
    const auto findings = check(program);
    EXPECT_TRUE(findings.empty()) << "seed " << seed << "\n" << told(findings) << listing(program);
  }
}

TEST(Fuzz, GenerationIsTheSameForTheSameSeed) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Program program = generate(seed);
    EXPECT_EQ(program, generate(seed)) << "seed " << seed;
    EXPECT_EQ(listing(program), listing(generate(seed))) << "seed " << seed;
  }
  EXPECT_NE(generate(1), generate(2));
}

TEST(Fuzz, EveryOperationIsDrawn) {
  std::vector<const Operation*> drawn;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    for (const Step& step : generate(seed).steps) drawn.push_back(step.operation);
  }
  for (const Operation& operation : operations()) {
    EXPECT_TRUE(std::find(drawn.begin(), drawn.end(), &operation) != drawn.end()) << operation.name;
  }
}

TEST(Fuzz, FindsAnOperatorWhoseReplayDiffers) {
  const auto findings = check(lying_program(), {.verify = Verify::never});
  const auto wrong_gradient = [](const Finding& finding) {
    return finding.check == "dropped" && finding.what == "differs in gradient of weight";
  };
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), wrong_gradient)) << told(findings);
}

TEST(Fuzz, FindsWhatVerificationKept) {
  const auto findings = check(lying_program());
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
