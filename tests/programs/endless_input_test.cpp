// Input that never ends is refused, by files and by pipes.
#include <gtest/gtest.h>

#include <string>

#include "programs/run_program.h"

namespace gradrecomp::program {
namespace {

void expect_refused_behind(const std::string& before, const std::string& arguments,
                           const std::string& message) {
  const Outcome outcome = run_program(arguments, "2>&1", before);
  EXPECT_EQ(outcome.status, 2) << arguments;
  EXPECT_NE(outcome.text.find(message), std::string::npos) << arguments << ": " << outcome.text;
}

TEST(EndlessInput, OfDigitsIsRefused) {
  const std::string message = ", but must be one that ends within 64 MiB";
  expect_refused("bench --data /dev/zero", "--data is /dev/zero" + message);
  for (const std::string endless : {"yes |", "yes , | tr -d '\\n' |"}) {
    expect_refused_behind(endless, "bench --data /dev/stdin", "--data is /dev/stdin" + message);
  }
}

TEST(EndlessInput, OfTextIsRefused) {
  const std::string message = ", but must be one that ends within 256 MiB";
  expect_refused("bench --model bert-base --data /dev/zero", "--data: file is /dev/zero" + message);
  expect_refused_behind("yes |", "bench --model bert-base --data /dev/stdin",
                        "--data: file is /dev/stdin" + message);
}

TEST(EndlessInput, OfPlansAndStepsIsRefused) {
  expect_refused("plan --graph /dev/zero", "--graph: file is /dev/zero, but must be one that ends");
  expect_refused("bench --plan /dev/zero", "--plan: file is /dev/zero, but must be one that ends");
}

}  // namespace
}  // namespace gradrecomp::program
